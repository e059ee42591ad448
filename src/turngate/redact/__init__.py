"""Redacted captures: a fixture that trips the same verdict and says nothing that was said.

The rule is an allow-list. What stays of a capture is the skeleton (brackets, commas, line ends, lengths), `true`, `false` and `null`,
and the words that the decoders and the schema compiler themselves compare with, because nothing else can change a verdict.
Every other string and number becomes a placeholder: equal ones stay equal, different ones different.
"""

from __future__ import annotations

from turngate.errors import TurngateError


class RedactionError(TurngateError):
    """A capture cannot be redacted so that it shows what it showed."""
