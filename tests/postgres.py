"""A PostgreSQL server of our own: in a temporary folder, on a Unix socket and a loopback port, as nobody special."""

from __future__ import annotations

import contextlib
import itertools
import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg

from tests.processes import free_port

BINARIES = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
SETTINGS = {
    "shared_buffers": "16MB",
    "max_connections": "60",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "log_min_messages": "fatal",
}
HBA = "local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n"


def find_binary(name: str) -> Path | None:
    """The server's program, in the path or where Debian keeps it."""
    beside = [folder / name for folder in BINARIES[::-1] if (folder / name).exists()]
    found = shutil.which(name) or (beside[0] if beside else None)
    return Path(found) if found else None


def _who() -> str | None:
    """Whom the server runs as: root is refused."""
    if os.getuid() != 0:
        return None
    known = {each.pw_name for each in pwd.getpwall()}
    return "postgres" if "postgres" in known else "nobody"


@dataclass
class Cluster:
    """One server."""

    folder: Path
    port: int
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def run(self, program: str, *arguments: str) -> None:
        binary = find_binary(program)
        assert binary is not None
        who = _who()
        command = [str(binary), *arguments]
        # To a file: a server that pg_ctl starts would keep a pipe open.
        log = self.folder / "run.log"
        with log.open("wb") as output:
            done = subprocess.run(
                command, user=who, cwd=self.folder, stdout=output, stderr=output, timeout=60, check=False
            )
        assert done.returncode == 0, log.read_text()

    def start(self) -> None:
        self.run("pg_ctl", "-D", "data", "-l", "server.log", "-w", "start")

    def stop(self, mode: str = "fast") -> None:
        self.run("pg_ctl", "-D", "data", "-m", mode, "-w", "stop")

    @property
    def pid(self) -> int:
        return int((self.folder / "data" / "postmaster.pid").read_text().split()[0])

    def configure(self, name: str, value: str) -> None:
        """Change a setting of the running server."""
        self.sql(f"ALTER SYSTEM SET {name} = {value}")
        self.sql("SELECT pg_reload_conf()")
        while self.sql(f"SHOW {name}") != [(value,)]:
            time.sleep(0.01)

    def serve_tls(self, certificate: str) -> None:
        """Take TLS connections too; `certificate` has the key in it."""
        for name in ("server.crt", "server.key"):
            file = self.folder / "data" / name
            file.write_text(certificate)
            file.chmod(0o600)
            if (who := _who()) is not None:
                shutil.chown(file, who)
        self.configure("ssl", "on")

    def url(self, schema: str = "public", *, user: str = "turngate", database: str = "turngate") -> str:
        options = quote(f"-csearch_path={schema}")
        return f"postgresql://{user}@/{database}?host={self.folder}&port={self.port}&options={options}"

    def tcp_url(self, user: str = "turngate", password: str = "", database: str = "turngate") -> str:
        return f"postgresql://{user}:{password}@127.0.0.1:{self.port}/{database}"

    def new_schema(self) -> str:
        """An empty schema of its own; a ledger lives in one."""
        name = f"ledger_{next(self.numbers)}"
        self.sql(f"CREATE SCHEMA {name}")
        return name

    def sql(self, statement: str, schema: str = "public", bindings: Any = None) -> list[Any]:
        """Run SQL as somebody else would."""
        with psycopg.connect(self.url(schema), autocommit=True) as connection:
            cursor = connection.execute(statement.encode(), bindings)
            return cursor.fetchall() if cursor.description else []


@contextlib.contextmanager
def running_cluster() -> Iterator[Cluster]:
    """A fresh server with one database."""
    folder = Path(tempfile.mkdtemp(prefix="turngate-pg-"))
    try:
        port = free_port()
        if (who := _who()) is not None:
            shutil.chown(folder, who)
        cluster = Cluster(folder, port)
        cluster.run(
            "initdb", "-D", "data", "-U", "turngate", "-A", "trust", "--no-sync", "--locale=C", "-E", "UTF8",
            "--wal-segsize=1",
        )  # fmt: skip
        settings = {**SETTINGS, "port": port, "unix_socket_directories": f"'{folder}'"}
        with (folder / "data" / "postgresql.conf").open("a") as file:
            file.writelines(f"{name} = {value}\n" for name, value in settings.items())
        (folder / "data" / "pg_hba.conf").write_text(HBA)
        cluster.start()
        try:
            with psycopg.connect(cluster.url(database="postgres"), autocommit=True) as connection:
                connection.execute("CREATE DATABASE turngate")
            yield cluster
        finally:
            if (folder / "data" / "postmaster.pid").exists():
                cluster.stop("immediate")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
