"""Events: what a dialect says that a frame means.

Past participles, in the order of a turn's life. A decoder gives any number of them for a frame and never raises: what it
does not know is `Unrecognised`, what is malformed is a `Defect`. `Prose` and `KeepAlive` have no tool meaning at all.
"""

from __future__ import annotations

import enum
from collections.abc import Hashable
from typing import TYPE_CHECKING

from msgspec import Struct

from turngate.core.finding import Code, Level

if TYPE_CHECKING:
    from turngate.core.toolset import Toolset

SlotKey = tuple[Hashable, ...]
"""A dialect's own key of a call inside its turn, opaque to everybody else: `(choice, index)`, `(output_index,)`, ..."""


class CallKind(enum.StrEnum):
    """What a call carries."""

    FUNCTION = "function"
    """A JSON object of arguments."""
    CUSTOM = "custom"
    """Free text; judged by identity, name, terminal and size only."""
    BUILTIN = "builtin"
    """A tool of the format's own that the agent runs, such as a shell: a JSON object that no request declares a schema for."""
    LEGACY = "function_call"
    """A function of a format without ids, as OpenAI's older form and Cohere's: a JSON object of arguments."""


class RunsOn(enum.StrEnum):
    """Who executes a call (wire reference, section 12)."""

    AGENT = "agent"
    PROVIDER = "provider"


class Ending(enum.StrEnum):
    """What a terminal reason says about the calls of its choice."""

    CALLS = "calls"
    """The model called tools, and all of them are there."""
    NATURAL = "natural"
    """The model had nothing more to say; whether calls may stand before it is the dialect's matter."""
    LIMIT = "limit"
    """Cut by a token or context limit: the last call may be a fragment."""
    REFUSED = "refused"
    """Cut by a filter, a refusal or a guardrail."""
    FAILED = "failed"
    """The provider reports a failure."""
    PAUSED = "paused"
    """To be continued in a further response; no call may run yet."""
    UNKNOWN = "unknown"
    """A reason that the dialect does not know."""


class Prose(Struct, frozen=True, gc=False):
    """Text, reasoning, role, usage or the like; `trailer` if it may stand after the terminal reason of its choice."""

    choice: int = 0
    trailer: bool = False
    commutes: bool = False
    """Whether this very frame may overtake held ones without any client reading the turn otherwise."""


class KeepAlive(Struct, frozen=True, gc=False):
    """A comment, a blank line, a ping: passes at any time."""


class TurnOpened(Struct, frozen=True, gc=False):
    """The response named itself."""

    response_id: str | None
    model: str | None


class TurnDescribed(Struct, frozen=True, gc=False):
    """The response says what it is and was asked with: all there is where a stored one is fetched, from the middle perhaps."""

    response_id: str | None
    model: str | None
    tools: Toolset


class ChoiceOpened(Struct, frozen=True, gc=False):
    """A choice appeared; the turn is not over before each of them has finished."""

    choice: int


class SlotOpened(Struct, frozen=True, gc=False):
    """A call appeared at a key."""

    slot: SlotKey
    choice: int
    path: str
    kind: CallKind = CallKind.FUNCTION
    runs_on: RunsOn = RunsOn.AGENT
    member_of: str | None = None
    """The declared toolset that brings this tool without listing it in the request."""


class SlotIdentified(Struct, frozen=True, gc=False):
    """Evidence of a call's id or name; None says nothing about that half."""

    slot: SlotKey
    call_id: str | None = None
    name: str | None = None


class Fragment(Struct, frozen=True, gc=False):
    """A piece of argument text, to be appended."""

    slot: SlotKey
    text: str


class SlotCopied(Struct, frozen=True, gc=False):
    """A further whole copy of a call's arguments; it must agree with every other one.

    `text` is the copy's exact argument text. Where the turn brought no fragments, the copy is the arguments.
    """

    slot: SlotKey
    text: str


class SlotClosed(Struct, frozen=True, gc=False):
    """The dialect's own end of one call: necessary where it exists, never sufficient."""

    slot: SlotKey
    terminal: str


class SlotAnswered(Struct, frozen=True, gc=False):
    """The call's result stands in the same reply: whoever sent it has run the call, and the agent will not."""

    slot: SlotKey


class ChoiceClosed(Struct, frozen=True, gc=False):
    """The terminal reason of a choice.

    `closes_calls` where the dialect has no end of its own for a call; elsewhere a call that is still open stays so.
    """

    choice: int
    reason: str
    ending: Ending
    path: str = ""
    closes_calls: bool = True
    provisional: bool = False
    """Whether the choice may go on after it: then the last reason counts, and only the end of the stream says which it is."""


class TurnClosed(Struct, frozen=True, gc=False):
    """The dialect's last event, or the sentinel after it; nothing may follow."""

    terminal: str


class ProviderFault(Struct, frozen=True, gc=False):
    """The provider reports an error inside the reply. `kind` is its own word for it, without its message."""

    kind: str


class Unrecognised(Struct, frozen=True, gc=False):
    """Something the dialect does not know; `may_carry_call` decides whether it is held."""

    what: str
    may_carry_call: bool


class Defect(Struct, frozen=True, gc=False):
    """Something malformed, with the finding it is; `may_carry_call` decides whether it is held."""

    code: Code
    message: str
    path: str = ""
    level: Level = Level.ERROR
    may_carry_call: bool = True


Event = (
    Prose
    | KeepAlive
    | TurnOpened
    | TurnDescribed
    | ChoiceOpened
    | SlotOpened
    | SlotIdentified
    | Fragment
    | SlotCopied
    | SlotClosed
    | SlotAnswered
    | ChoiceClosed
    | TurnClosed
    | ProviderFault
    | Unrecognised
    | Defect
)
