"""Run each call of a turn once, and only if the gate still grants it: with the plain OpenAI SDK."""

import os

from openai import OpenAI

from turngate.claims import ClaimRefusedError, claim

GATE = os.environ.get("GATE", "http://127.0.0.1:8484")
KEY = os.environ.get("OPENAI_API_KEY", "sk-...")
LOOK_UP = {
    "type": "function",
    "function": {
        "name": "look_up",
        "parameters": {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]},
    },
}


def look_up(arguments: str) -> str:
    return f"looked up {arguments}"


client = OpenAI(base_url=f"{GATE}/v1", api_key=KEY)
raw = client.chat.completions.with_raw_response.create(
    model=os.environ.get("MODEL", "gpt-5"),
    messages=[{"role": "user", "content": "What does 'latch' mean?"}],
    tools=[LOOK_UP],
)
turn = raw.headers["x-turngate-turn"]
for call in raw.parse().choices[0].message.tool_calls or []:
    try:
        claim(GATE, turn, call.id, headers={"authorization": f"Bearer {KEY}"}, once=f"job-7/{call.id}")
    except ClaimRefusedError as refused:
        print(f"not run: {refused.code}")
    else:
        print(look_up(call.function.arguments))
