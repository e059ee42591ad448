from __future__ import annotations

import json

from turngate.dialects.openai_chat import OpenAIChat


def test_the_request_declares_tools_of_three_kinds() -> None:
    request = {
        "stream": True,
        "tools": [
            {"type": "function", "function": {"name": "ls", "parameters": {"type": "object"}}},
            {"type": "custom", "custom": {"name": "run"}},
            "nonsense",
        ],
        "functions": [{"name": "old"}],
        "tool_choice": {"type": "function", "function": {"name": "ls"}},
    }

    tools = OpenAIChat().toolset(json.dumps(request).encode())

    assert {name: (tool.kind.value, tool.schema) for name, tool in tools.tools.items()} == {
        "ls": ("function", {"type": "object"}),
        "run": ("custom", None),
        "old": ("function", None),
    }
    assert (tools.streamed, tools.named_choice) == (True, True)
