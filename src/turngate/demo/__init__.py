"""A small provider that needs no key and misbehaves on request, so that the gate can show itself.

`turns` says what a provider sends, once for every dialect; `wire` spells it; `provider` serves it over real sockets;
`clients` are what an agent would use; `show` runs them with and without the gate.
"""
