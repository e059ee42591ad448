"""`turngate redact`: a capture becomes a fixture that shows the same verdict and nothing that was said."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, get_args

import click

from turngate.dialects import DIALECTS, dialect_named
from turngate.judging import Framing, find_dialect, framing_of
from turngate.offline.envelope import EnvelopeError, Upstream, read_envelope
from turngate.offline.files import InputError, read_bytes, read_document
from turngate.offline.reply import End
from turngate.presets import PRESETS
from turngate.redact.capture import Capture, redact_capture
from turngate.redact.published import redact_published
from turngate.schema import Vocabulary


@click.command()
@click.argument("capture", type=click.Path(path_type=Path, allow_dash=True))
@click.option(
    "--output", "-o", type=click.Path(path_type=Path), help="A new file, instead of standard output."
)
@click.option(
    "--dialect",
    type=click.Choice([dialect.name for dialect in DIALECTS]),
    help="Read CAPTURE as a raw reply in this format.",
)
@click.option(
    "--request",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="The request that a raw reply answers.",
)
@click.option("--framing", type=click.Choice(list(get_args(Framing))), default="auto", help="Of a raw reply.")
@click.option(
    "--end",
    type=click.Choice([each.value for each in End]),
    default=End.COMPLETE.value,
    show_default=True,
    help="How a raw reply ended.",
)
@click.option(
    "--preset",
    type=click.Choice([preset.name for preset in PRESETS]),
    metavar="NAME",
    help="Quirks that the turn may have, where the capture names none.",
)
@click.option(
    "--vocabulary",
    type=click.Choice([each.value for each in Vocabulary]),
    help="How much of JSON Schema tools may use; conservative for the published profiles, else full.",
)
def redact(
    capture: Path,
    *,
    output: Path | None,
    dialect: str | None,
    request: Path | None,
    framing: Framing,
    end: str,
    preset: str | None,
    vocabulary: str | None,
) -> None:
    """Redact CAPTURE, a fixture or a raw reply, and write the fixture if it is judged as the capture is.

    Exit 2, and nothing is written, if it would not be.
    """
    if (dialect is None) is not (request is None):
        raise click.UsageError("a raw reply needs both --dialect and --request")
    upstream = None if preset is None else Upstream(preset)
    schemas = None if vocabulary is None else Vocabulary(vocabulary)
    if dialect is not None and request is not None:
        raw = _raw(capture, dialect, read_bytes(request), framing, End(end), upstream)
        document = redact_capture(raw, schemas=schemas or Vocabulary.FULL)
    else:
        document = _document(capture, upstream, schemas)
    _write(json.dumps(document, indent=2), output)


def _raw(
    path: Path, dialect: str, request: bytes, framing: Framing, end: End, upstream: Upstream | None
) -> Capture:
    chosen, pieces = find_dialect(dialect), (read_bytes(path),)
    tools = chosen.toolset(request)
    cut = framing_of(chosen, tools, pieces, framing)
    return Capture(chosen, tools, request, pieces, cut, end=end, upstream=upstream)


def _document(path: Path, upstream: Upstream | None, schemas: Vocabulary | None) -> Any:
    document = read_document(path)
    profile = document.get("profile") if isinstance(document, dict) else None
    dialect = dialect_named(profile) if isinstance(profile, str) else None
    if dialect is None or not isinstance(document, dict):
        return redact_published(document, schemas or Vocabulary.CONSERVATIVE)
    try:
        envelope = read_envelope(dialect, document)
    except EnvelopeError as error:
        raise InputError(f"{path}: {error.path}: {error}") from None
    return redact_capture(Capture.of(envelope, upstream), schemas=schemas or Vocabulary.FULL)


def _write(text: str, output: Path | None) -> None:
    if output is None:
        click.echo(text)
        return
    try:
        # For its owner only, and never in the place of a file that is there.
        file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise InputError(f"{output}: {error.strerror}") from None
    with os.fdopen(file, "w", encoding="utf-8") as opened:
        opened.write(text + "\n")
