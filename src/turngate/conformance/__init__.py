"""The conformance kit: what a client, an adapter or a gateway does with hostile streams.

`scenario` is a fixture made playable, `provider` plays it over HTTP, and `take` is one playing of it. `adapters` drive clients, `gateway` asks
through a running gateway, and both leave an `observation`. `adapter_judge` and `gateway_judge` turn it into lapses, `report` tells
them. What a turn is worth is said by the gate's own session, never by code of the kit.
"""
