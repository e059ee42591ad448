"""A whole gate with its operator's listener in this process, and somebody who asks it over a real socket."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.proxy.gated import Client, Script, World, gated
from turngate.operator.listener import Plane, open_plane
from turngate.operator.tokens import Role, TokenStore, first_token_path


@dataclass
class Told:
    """An answer of the operator's interface."""

    status: int
    headers: dict[str, str]
    body: Any

    @property
    def code(self) -> str:
        """The code of an error; its shape is checked on the way."""
        (error,) = self.body.values()
        assert set(self.body) == {"error"}
        assert set(error) == {"message", "type", "code", "param"}
        assert error["message"]
        return str(error["code"])


@dataclass
class Operator:
    """Somebody with a token."""

    address: str
    token: str | None
    host: str = "127.0.0.1"

    async def ask(
        self, method: str, path: str, body: Any = None, *, headers: dict[str, str] | None = None
    ) -> Told:
        """One request on a connection of its own."""
        fields = {"Host": self.host, "Connection": "close"}
        if self.token is not None:
            fields["Authorization"] = f"Bearer {self.token}"
        content = b""
        if body is not None:
            content = body if isinstance(body, bytes) else json.dumps(body).encode()
            fields |= {"Content-Type": "application/json", "Content-Length": str(len(content))}
        fields |= headers or {}
        lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items() if value)
        return await self.raw(f"{method} {path} HTTP/1.1\r\n{lines}\r\n".encode("latin-1") + content)

    async def raw(self, request: bytes) -> Told:
        """Bytes as they are."""
        kind, _, where = self.address.partition(":")
        if kind == "unix":
            reader, writer = await asyncio.open_unix_connection(where)
        else:
            reader, writer = await asyncio.open_connection("127.0.0.1", int(where.rpartition(":")[2]))
        try:
            writer.write(request)
            answer = await Client(reader, writer).answer()
        finally:
            writer.transport.abort()
        headers = {name.lower(): value for name, value in answer.headers}
        is_json = headers.get("content-type", "").startswith("application/json")
        body = json.loads(answer.body) if answer.body and is_json else answer.body.decode() or None
        return Told(answer.status, headers, body)

    async def get(self, path: str) -> Any:
        told = await self.ask("GET", path)
        assert told.status == 200, told.body
        return told.body

    async def latch(self, kind: str, **fields: Any) -> Any:
        """Set a latch; returns it."""
        told = await self.ask("POST", "/latches", {"kind": kind, "reason": "drill", **fields})
        assert told.status == 201, told.body
        return told.body["latch"]

    async def lift(self, latch: Any) -> Any:
        told = await self.ask("POST", f"/latches/{latch['id']}/lift", {"reason": "over"})
        assert told.status == 200, told.body
        return told.body


@dataclass
class Staged:
    """Everything that runs."""

    world: World
    plane: Plane
    operator: Operator
    script: Script

    def somebody(self, token: str | None) -> Operator:
        return Operator(self.plane.address, token)

    def viewer(self) -> Operator:
        _, secret = self.plane.store.create("viewer", Role.VIEWER)
        return self.somebody(secret)


@contextlib.asynccontextmanager
async def operated(folder: Path, script: Script, **settings: Any) -> AsyncIterator[Staged]:
    """A gate and its operator's listener, before an upstream that runs `script`."""
    async with gated(folder, script, **settings) as world, open_plane(world.gate) as plane:
        assert plane is not None
        ann = Operator(plane.address, first_token(plane.store, world.ledger))
        yield Staged(world, plane, ann, script)


def first_token(store: TokenStore, ledger: Path) -> str:
    assert store.tokens()
    return first_token_path(ledger).read_text().strip()
