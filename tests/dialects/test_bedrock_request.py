from __future__ import annotations

from turngate.core.event import RunsOn
from turngate.core.toolset import Tool
from turngate.dialects.bedrock_request import read_toolset

SCHEMA = {"type": "object"}


def test_tools_have_a_schema_and_system_tools_run_at_the_provider() -> None:
    spec = {"toolSpec": {"name": "ls", "inputSchema": {"json": SCHEMA}}}
    entries = [spec, {"systemTool": {"name": "web"}}, {"cachePoint": {}}, {"toolSpec": {"name": 1}}, 1]
    toolset = read_toolset({"toolConfig": {"tools": entries, "toolChoice": {"auto": {}}}})
    assert toolset.tools == {"ls": Tool("ls", schema=SCHEMA), "web": Tool("web", runs_on=RunsOn.PROVIDER)}
    assert not toolset.named_choice


def test_a_forced_tool_is_noted() -> None:
    assert read_toolset({"toolConfig": {"toolChoice": {"tool": {"name": "ls"}}}}).named_choice


def test_one_name_for_two_tools_is_ambiguous() -> None:
    entries = [{"toolSpec": {"name": "ls"}}, {"toolSpec": {"name": "ls", "inputSchema": {"json": SCHEMA}}}]
    assert read_toolset({"toolConfig": {"tools": entries}}).ambiguous == {"ls"}


def test_a_request_without_tools_declares_none_and_one_that_is_no_object_cannot_be_read() -> None:
    assert read_toolset({}).tools == read_toolset({"toolConfig": 1}).tools == {}
    assert not read_toolset([]).readable
