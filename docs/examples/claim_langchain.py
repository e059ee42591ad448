"""The same as a middleware around each tool of a LangChain agent."""

import os
from collections.abc import Callable

from langchain.agents import create_agent
from langchain.agents.middleware import ToolCallRequest, wrap_tool_call
from langchain_core.messages import ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

from turngate.claims import ClaimRefusedError, claim

GATE = os.environ.get("GATE", "http://127.0.0.1:8484")
KEY = os.environ.get("OPENAI_API_KEY", "sk-...")


@tool
def look_up(word: str) -> str:
    """Look a word up."""
    return f"looked up {word}"


@wrap_tool_call
def claimed(request: ToolCallRequest, handler: Callable[[ToolCallRequest], ToolMessage]) -> ToolMessage:
    call = request.tool_call
    turn = request.state["messages"][-1].response_metadata["headers"]["x-turngate-turn"]
    try:
        claim(GATE, turn, call["id"], headers={"authorization": f"Bearer {KEY}"}, once=call["id"])
    except ClaimRefusedError as refused:
        return ToolMessage(f"not run: {refused.code}", tool_call_id=call["id"], status="error")
    return handler(request)


model = ChatOpenAI(
    model=os.environ.get("MODEL", "gpt-5"),
    base_url=f"{GATE}/v1",
    api_key=KEY,
    include_response_headers=True,  # puts the turn into the message
)
agent = create_agent(model, [look_up], middleware=[claimed])
asked = {"messages": [{"role": "user", "content": "What does 'latch' mean?"}]}
for message in agent.invoke(asked)["messages"]:
    if isinstance(message, ToolMessage):
        print(message.content)
