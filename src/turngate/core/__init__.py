"""The core: what a provider's bytes mean, and what may leave. No await, no clock, no socket, no log.

Words, in the order in which a byte meets them:

frame     the smallest upstream unit with its exact bytes: one SSE block, one JSON body
event     what a dialect says that a frame means (`SlotOpened`, `Fragment`, `Prose`, ...)
slot      one tool call being assembled, under the dialect's own key
turn      one provider response: its choices, its slots, its terminal
finding   one thing wrong, as a value: stable code, level, path, message
verdict   release or block, with its reason and findings; exactly one per turn
gate      the table that says whether a frame passes now, waits, or is dropped
action    what the relay must do now (`Forward`, `Decide`, `Release`, `Block`, ...)
session   one turn's composition of all of these: the only object that the outside drives

    bytes -> Framer -> Frame -> Decoder -> Event -> Turn and Slot tables -> Finding, Verdict
                         |                                                      |
                         +-----------> Gate table (state, signal) <-------------+
                                              |
                                           Action -> the relay

A provider's fault is a finding. Our own fault is an exception, and then the held bytes die with the session.
"""
