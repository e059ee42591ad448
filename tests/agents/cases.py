"""The turns that every agent is sent: valid ones, and each way in which a call can arrive unproved.

The shell command appends one line to a file, so what an agent executed is counted, not inferred.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from tests.agents.wire import Tool, Wire

LINE = "ran"


@dataclass(frozen=True, slots=True)
class Sent:
    """What the provider puts on the wire: bytes, perhaps a hold and more, and how the connection ends."""

    first: bytes
    rest: bytes = b""
    reset: bool = False

    def assembled(self, wire: Wire) -> Sent:
        """The same, once the format has completed the whole of it; the pause stays between the same two blocks."""
        blocks = wire.assembled(self.first + self.rest).split(b"\n\n")
        first = b"".join(each + b"\n\n" for each in blocks[: self.first.count(b"\n\n")])
        rest = b"".join(each + b"\n\n" for each in blocks[self.first.count(b"\n\n") : -1])
        return replace(self, first=first, rest=rest)


@dataclass(frozen=True, slots=True)
class Order:
    """The call to ask for."""

    tool: Tool
    command: str

    @property
    def arguments(self) -> str:
        """Complete arguments."""
        return self.tool.arguments(self.command)

    @property
    def cut_arguments(self) -> str:
        """Arguments that stop right after the command string, before the closing brace."""
        return self.arguments.partition(self.command)[0] + self.command + '"'

    @property
    def doubled_arguments(self) -> str:
        """Arguments that give the command twice, so that two readers may run two different things."""
        return f'{{"{self.tool.key}":"true",' + self.arguments[1:]


Build = Callable[[Wire, Order], Sent]


@dataclass(frozen=True, slots=True)
class Case:
    """One turn. `proved` is what the gate must find."""

    name: str
    summary: str
    build: Build
    proved: bool = False
    late: bool = False
    """Whether the fault comes after the turn's reason."""

    def exists(self, wire: Wire) -> bool:
        """Whether the format has such a turn: where the fault cannot be written, what comes out is the valid turn."""
        order = Order(Tool("sh", {}), "echo")
        return self.proved or self.build(wire, order) != valid(wire, order)


def up_to_call(wire: Wire, order: Order, arguments: str | None = None) -> bytes:
    """The opening and one call."""
    return wire.opening() + wire.call(order.tool, order.arguments if arguments is None else arguments)


def complete(wire: Wire, reason: str) -> bytes:
    """The turn's reason and the end of the stream."""
    return wire.ending(reason) + wire.end()


def valid(wire: Wire, order: Order) -> Sent:
    return Sent(up_to_call(wire, order) + complete(wire, wire.calls))


def slow(wire: Wire, order: Order) -> Sent:
    turn = up_to_call(wire, order)
    half = turn.index(b"\n\n", turn.index(b"echo ")) + 2
    return Sent(turn[:half], turn[half:] + complete(wire, wire.calls))


def no_terminal(wire: Wire, order: Order) -> Sent:
    return Sent(up_to_call(wire, order))


def reset(wire: Wire, order: Order) -> Sent:
    return Sent(up_to_call(wire, order), reset=True)


def limit(wire: Wire, order: Order) -> Sent:
    return Sent(up_to_call(wire, order) + complete(wire, wire.limit))


def refused(wire: Wire, order: Order) -> Sent:
    return Sent(up_to_call(wire, order) + complete(wire, wire.refused))


def text_ending(wire: Wire, order: Order) -> Sent:
    return Sent(up_to_call(wire, order) + complete(wire, wire.stopped))


def cut_arguments(wire: Wire, order: Order) -> Sent:
    return Sent(up_to_call(wire, order, order.cut_arguments) + complete(wire, wire.calls))


def doubled_key(wire: Wire, order: Order) -> Sent:
    return Sent(up_to_call(wire, order, order.doubled_arguments) + complete(wire, wire.calls))


def ended_twice(wire: Wire, order: Order) -> Sent:
    return Sent(up_to_call(wire, order) + wire.ended_again() + complete(wire, wire.calls))


def error_after_call(wire: Wire, order: Order) -> Sent:
    return Sent(up_to_call(wire, order) + wire.error("the model's server died") + wire.end())


def one_id_twice(wire: Wire, order: Order) -> Sent:
    again = wire.call(order.tool, order.arguments, index=1)
    return Sent(up_to_call(wire, order) + again + complete(wire, wire.calls))


def call_after_reason(wire: Wire, order: Order) -> Sent:
    late = wire.call(order.tool, order.arguments)
    return Sent(wire.opening() + wire.ending(wire.stopped) + late + wire.end())


ALL: tuple[Case, ...] = (
    Case("valid", "a valid turn", valid, proved=True),
    Case("no-terminal", "the call is complete, the stream ends cleanly without the turn's end", no_terminal),
    Case("reset", "the call is complete, then the connection is reset", reset),
    Case("limit", "the turn ends by a token limit (`length`, `max_tokens`, `incomplete`)", limit),
    Case("refused", "the turn ends refused (`content_filter`, `refusal`)", refused),
    Case("text-ending", "the turn ends as one of text (`stop`, `end_turn`)", text_ending),
    Case("cut-arguments", "the arguments lack their end, the turn ends as complete", cut_arguments),
    Case("doubled-key", "the arguments hold the command's key twice", doubled_key),
    Case("ended-twice", "the call (Messages, Responses) or the turn (chat) is ended twice", ended_twice),
    Case("error-after-call", "the provider's own error follows the call", error_after_call),
    Case("one-id-twice", "two calls share one id", one_id_twice),
    Case("call-after-reason", "a call follows the turn's reason", call_after_reason, late=True),
    Case("slow", "a valid turn that pauses at the call", slow, proved=True),
)
BY_NAME: Mapping[str, Case] = {case.name: case for case in ALL}
