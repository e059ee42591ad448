# ruff: noqa: INP001 -- one file in an image, no package
"""The smallest agent: asks for one turn, runs what it is told to run, and stops at an error.

It gathers the pieces of a call as careless agents do. Behind turngate that is enough: no piece arrives before the whole is sound.
"""

from __future__ import annotations

import json
import os
import sys
import urllib.request

TOOL = {
    "type": "function",
    "function": {
        "name": "delete_file",
        "parameters": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
    },
}


def ask(model: str) -> str:
    """One turn; says what became of it."""
    body = {
        "model": model,
        "stream": True,
        "messages": [{"role": "user", "content": "tidy up"}],
        "tools": [TOOL],
    }
    request = urllib.request.Request(  # noqa: S310 -- the operator's own URL
        os.environ["OPENAI_BASE_URL"] + "/chat/completions",
        json.dumps(body).encode(),
        {"content-type": "application/json", "authorization": "Bearer none"},
    )
    name, arguments = "", ""
    with urllib.request.urlopen(request, timeout=60) as reply:  # noqa: S310 -- likewise
        for line in reply:
            if not line.startswith(b"data: {"):
                continue
            chunk = json.loads(line[6:])
            if "error" in chunk:
                return f"refused: {chunk['error']['message']}"
            for choice in chunk["choices"]:
                for call in choice["delta"].get("tool_calls") or []:
                    name += call["function"].get("name") or ""
                    arguments += call["function"].get("arguments") or ""
    return f"would run {name}({arguments})" if name else "no call"


if __name__ == "__main__":
    for each in sys.argv[1:] or ["demo", "demo-cut"]:
        sys.stdout.write(f"{each}: {ask(each)}\n")
