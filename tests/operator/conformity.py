"""The operator's interface against its own OpenAPI document: `make schemathesis`.

    python -m tests.operator.conformity SCHEMATHESIS

A real gate with turns, latches and an audit in it is asked everything that the document allows and much that it does not, with an
operator's token and without one. No answer may be a server error, or one that the document does not know.
Schemathesis pins another jsonschema-rs than the project does, so it lives in an environment of its own.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import uvloop

from tests.operator.test_crash import Process, gate, provide
from tests.processes import free_port

CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
)


@dataclass
class Listening(Process):
    """A gate whose operators speak TCP, as schemathesis does."""

    operator_port: int = field(default_factory=free_port)

    @property
    def operators(self) -> str:
        return f"127.0.0.1:{self.operator_port}"


async def main(schemathesis: str) -> int:
    with tempfile.TemporaryDirectory() as folder:
        async with gate(Path(folder), provide, Listening) as process:
            await process.start()
            for _ in range(3):
                await process.ask()
            latch = await process.operator.latch("disable_tool", tool="send_mail")
            await process.ask()
            await process.operator.lift(latch)
            document = Path(folder) / "openapi.json"
            document.write_text(json.dumps(await process.operator.get("/openapi.json")))
            failed = False
            for who, token in (("operator", process.operator.token), ("nobody", None)):
                print(f"\n{who}\n", flush=True)
                command = [schemathesis, "run", str(document), "--url", f"http://{process.operators}"]
                command += [
                    "--checks",
                    ",".join(CHECKS),
                    "--max-examples",
                    "10",
                    "--no-color",
                    "--warnings",
                    "off",
                ]
                command += ["--header", f"Authorization: Bearer {token}"] if token else []
                told = await asyncio.create_subprocess_exec(*command, cwd=folder)
                failed |= await told.wait() != 0
    return int(failed)


if __name__ == "__main__":
    sys.exit(uvloop.run(main(str(Path(sys.argv[1]).absolute()))))
