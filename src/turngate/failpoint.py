"""Named points at which a test can kill this process as a power cut would.

`TURNGATE_FAILPOINT=ledger.before_commit:3` sends SIGKILL at the third pass of that point: no handler, no
`finally`, no flush runs. The variable is read once, at import; unarmed, `hit` is an empty function.
"""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def armed(spec: str) -> Callable[[str], None]:
    """Build the `hit` that `spec` (`name` or `name:N`) asks for."""
    target, _, nth = spec.partition(":")
    remaining = int(nth or 1)

    def hit_target(name: str) -> None:
        nonlocal remaining
        if name == target:
            remaining -= 1
            if remaining == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    return hit_target


def _unarmed(_name: str) -> None:
    pass


hit: Callable[[str], None] = armed(spec) if (spec := os.environ.get("TURNGATE_FAILPOINT")) else _unarmed
"""Pass the named point; dies here when the environment says so."""
