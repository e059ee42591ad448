# Everything works in .venv, from the pinned locks, with Python 3.11 or newer, git and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Tools that cannot share an environment with the project's pins, or that only one test needs.
APART := $(VENV)/apart

# Tests start hundreds of processes, and none of them shall compile every module again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run test setup lint bench demo agents corpus parity conformance node console schemathesis soak durations lock clean

run: $(VENV)/run.stamp  ## Start the gate on 127.0.0.1:8484 with the bundled replay provider.
	$(BIN)/turngate serve --default-upstream demo

test:  ## Lint, type-check and test, all at once; what the first two say comes last.
	@$(MAKE) --no-print-directory -j 2 setup
	@mkdir -p var; $(MAKE) --no-print-directory lint >var/lint.log 2>&1 & lint=$$!; \
	  $(BIN)/python -m pytest -n 4 -p tests.order; tests=$$?; \
	  wait $$lint; lint=$$?; cat var/lint.log; exit $$((tests | lint))

setup: $(VENV)/test.stamp $(APART)/stamp  ## What the tests need of Python.
	@:

lint: $(VENV)/test.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

demo: $(VENV)/test.stamp  ## Bundled turns through the real proxy, side by side.
	$(BIN)/turngate demo

bench: $(VENV)/test.stamp  ## Direct, nginx and turngate in one run.
	$(BIN)/python -m tests.bench.bench --reps 3

agents: $(VENV)/test.stamp  ## Real coding agents with and without the gate.
	$(BIN)/python -m tests.agents.accept

corpus: $(VENV)/test.stamp  ## The recorded corpus through the real proxy, as a table by provider and reason.
	$(BIN)/python -m tests.corpus.table

parity: $(VENV)/test.stamp  ## Broken turns by dialect, streamed or not, direct or replayed, as the table of docs/dialects.md.
	$(BIN)/python -m tests.fixtures.parity

conformance: $(VENV)/test.stamp  ## What the pinned SDKs and LiteLLM's proxy do with the fixtures, as the tables of docs/sdk-reactions.md.
	$(BIN)/python -m tests.conformance.measure

node: $(VENV)/test.stamp  ## What the official Node SDKs make of all fixtures, without the gate and behind it, as the table of docs/sdk-reactions.md.
	$(BIN)/python -m tests.node.measure

console: $(VENV)/test.stamp  ## The console in a real Chromium; what it shows is kept as pictures in var/console.
	$(BIN)/pytest tests/console

schemathesis: $(VENV)/test.stamp $(APART)/stamp  ## The operator's interface against its own OpenAPI document.
	$(BIN)/python -m tests.operator.conformity $(APART)/bin/schemathesis

soak: $(VENV)/test.stamp  ## The long forms of the fuzz, crash and memory tests.
	TURNGATE_SOAK=1 $(BIN)/pytest -n 2 --dist loadfile tests/soak tests/core tests/dialects tests/fixtures tests/suites tests/redact tests/sdk tests/test_stream.py tests/ledger tests/operator tests/workers tests/proxy tests/node tests/corpus

durations: setup  ## Measure again which tests take long; `make test` begins with them.
	$(BIN)/python -m pytest -n 4 -p tests.order --measure

lock:  ## Pin again what pyproject.toml asks for.
	uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-annotate --no-header --no-emit-index-url \
	  --all-extras pyproject.toml -o deploy/requirements.lock
	uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-annotate --no-header --no-emit-index-url \
	  --all-extras --group build --group dev --group sdk pyproject.toml -o tests/requirements.lock
	uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-annotate --no-header --no-emit-index-url \
	  --group build -c tests/requirements.lock -o deploy/build.lock
	uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-annotate --no-header --no-emit-index-url \
	  --group apart -o tests/apart.lock

clean:
	rm -rf $(VENV) var build dist

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || (echo "turngate needs Python 3.11 or newer" >&2; exit 1)
	$(PYTHON) -m venv $(VENV)

$(VENV)/run.stamp: deploy/requirements.lock deploy/build.lock pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r deploy/requirements.lock -r deploy/build.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps -e .
	touch $@

$(VENV)/test.stamp: tests/requirements.lock pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r tests/requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps -e .
	touch $@ $(VENV)/run.stamp

$(APART)/stamp: tests/apart.lock | $(BIN)/python
	$(BIN)/python -m venv $(APART)
	$(APART)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r tests/apart.lock
	touch $@
