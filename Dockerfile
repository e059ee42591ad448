# Two stages: the first installs from the hash-pinned lock, the second has nothing but the result and runs as nobody special.
FROM python:3.13-slim-bookworm AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
RUN python -m venv /opt/turngate
COPY deploy/requirements.lock /build/deploy/requirements.lock
RUN /opt/turngate/bin/pip install --require-hashes -r /build/deploy/requirements.lock
# What makes the wheel is pinned too, and stays behind in this stage.
COPY deploy/build.lock /build/deploy/build.lock
RUN pip install --require-hashes -r /build/deploy/build.lock
COPY pyproject.toml README.md LICENSE /build/
COPY src /build/src
COPY fixtures /build/fixtures
RUN pip wheel --no-build-isolation --no-deps --wheel-dir /build/dist /build \
 && /opt/turngate/bin/pip install --no-deps /build/dist/*.whl

FROM python:3.13-slim-bookworm
RUN useradd --system --uid 10001 --no-create-home turngate \
 && install -d -o turngate -g turngate -m 0700 /var/lib/turngate
COPY --from=build /opt/turngate /opt/turngate
# Everything but the ledger's volume may be read-only.
ENV PATH=/opt/turngate/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    TURNGATE_SERVER_LISTEN=0.0.0.0:8484 \
    TURNGATE_LEDGER_URL=sqlite:////var/lib/turngate/ledger.db \
    TURNGATE_LOG_FORMAT=json
WORKDIR /var/lib/turngate
VOLUME /var/lib/turngate
USER 10001
EXPOSE 8484
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=10s CMD ["turngate", "health"]
ENTRYPOINT ["turngate"]
CMD ["serve"]
