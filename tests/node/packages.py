"""The official Node SDKs, installed on demand exactly as the lock pins them, once for all processes that test here."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
PINS = ("package.json", "package-lock.json")
FOLDER = HERE.parents[1] / "var" / "node"
OLDEST = 18


class NodeError(Exception):
    """The SDKs cannot run here; the message says what to do."""


def installed(folder: Path = FOLDER) -> Path:
    """Where the SDKs and, beside them, the drivers are; keyed by the lock, so that another lock is another folder."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None or _version(node) < OLDEST:
        raise NodeError(f"the SDKs come from npm: install Node.js {OLDEST} or newer")
    pins = [(HERE / name).read_bytes() for name in PINS]
    place = folder / hashlib.sha256(b"".join(pins)).hexdigest()[:16]
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not place.is_dir():
            _install(npm, folder, place)
        _link_drivers(place / "drivers")
    return place


def _version(node: str) -> int:
    told = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout
    return int(told.strip().lstrip("v").partition(".")[0])


def _install(npm: str, folder: Path, place: Path) -> None:
    """All or nothing: the folder gets its name when it is complete."""
    with tempfile.TemporaryDirectory(dir=folder, ignore_cleanup_errors=True) as temporary:
        fresh = Path(temporary) / "packages"
        fresh.mkdir()
        for name in PINS:
            shutil.copy(HERE / name, fresh)
        quietly = ["--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
        ran = subprocess.run([npm, "ci", "--omit=optional", *quietly], cwd=fresh, env=os.environ | {"CI": "1"}, capture_output=True, text=True, check=False)  # fmt: skip
        if ran.returncode != 0:
            raise NodeError(f"npm could not install the SDKs: {ran.stderr.strip()[-300:]}")
        fresh.rename(place)


def _link_drivers(link: Path) -> None:
    """Node looks for packages where a file stands; a link keeps the drivers in one place."""
    if not link.exists() or not link.samefile(HERE / "drivers"):
        link.unlink(missing_ok=True)
        link.symlink_to(HERE / "drivers")
