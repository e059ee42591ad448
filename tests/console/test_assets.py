"""The console's own files."""

from __future__ import annotations

import hashlib
import re
from importlib import resources

from turngate.console.assets import ASSETS, address


def test_a_files_address_changes_with_its_content() -> None:
    for name, asset in ASSETS.items():
        assert address(name) == f"/console/static/{name}?v={hashlib.sha256(asset.content).hexdigest()[:12]}"


def test_the_style_sheet_loads_nothing_and_knows_light_and_dark() -> None:
    text = ASSETS["console.css"].content.decode()
    assert not re.search(r"url\(|@import|https?:", text)
    assert "prefers-color-scheme: dark" in text


def test_htmx_is_the_release_that_its_licence_stands_beside() -> None:
    static = resources.files("turngate.console") / "static"
    assert b'version:"2.0.11"' in ASSETS["htmx.js"].content
    assert "Zero-Clause BSD" in (static / "htmx.LICENSE").read_text(encoding="utf-8")
