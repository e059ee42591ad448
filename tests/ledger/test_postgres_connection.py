"""What a gate is told that cannot have its ledger on a server: which place, what to do, and never a password."""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING

import psycopg
import pytest

from tests.processes import free_port
from turngate.errors import ConfigError, LedgerError
from turngate.ledger import postgres_connection
from turngate.ledger.location import locate
from turngate.ledger.postgres_connection import STATEMENTS, Session, connect

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.postgres import Cluster
    from tests.transport.conftest import Certificates

SECRET = "correct-horse"


def opened(url: str, timeout_s: float = 2) -> Session:
    return connect(locate(url), timeout_s=timeout_s, application="turngate test")


def refused(url: str) -> str:
    with pytest.raises((LedgerError, ConfigError)) as caught:
        opened(url).connection.close()
    for told in (str(caught.value), repr(caught.value.__cause__), repr(locate(url))):
        assert SECRET not in told
    return str(caught.value)


@pytest.fixture
def role(cluster: Cluster) -> Iterator[str]:
    cluster.sql(f"CREATE ROLE app LOGIN PASSWORD '{SECRET}'")
    yield "app"
    cluster.sql("DROP ROLE app")


def test_a_server_that_is_not_there_is_named_with_its_host(tmp_path: Path) -> None:
    port = free_port()
    said = refused(f"postgresql://app:{SECRET}@127.0.0.1:{port}/ledger")
    assert said.startswith(f"postgresql://app@127.0.0.1:{port}/ledger: ")
    assert said.endswith("is the server running, and are host and port right?")
    assert "is the server running" in refused(f"postgresql:///ledger?host={tmp_path}&password={SECRET}")


@pytest.mark.parametrize(
    ("user", "password", "database", "remedy"),
    [
        ("app", "wrong-" + SECRET, "turngate", "check user and password"),
        ("app", "", "turngate", "give one in the URL, PGPASSWORD or a password file"),
        ("app", SECRET, "nowhere", "create it: createdb"),
    ],
)
def test_what_the_server_refuses_comes_with_what_to_do(
    cluster: Cluster, role: str, user: str, password: str, database: str, remedy: str
) -> None:
    assert user == role
    assert remedy in refused(cluster.tcp_url(user, password, database))


def test_a_role_that_does_not_exist_is_to_be_created(cluster: Cluster) -> None:
    assert "create it: createuser" in refused(cluster.url(user="nobody-knows"))


def test_a_password_in_the_url_is_taken(cluster: Cluster, role: str) -> None:
    opened(cluster.tcp_url(role, SECRET)).connection.close()


def test_tls_is_asked_for_in_the_url(cluster: Cluster, role: str) -> None:
    assert "check sslmode" in refused(cluster.tcp_url(role, SECRET) + "?sslmode=require")


def test_a_server_is_known_by_its_certificate(
    cluster: Cluster, role: str, certificates: Certificates
) -> None:
    cluster.serve_tls(certificates.server.read_text())
    try:
        url = cluster.tcp_url(role, SECRET).replace("127.0.0.1", "localhost") + "?sslmode=verify-full"
        session = opened(f"{url}&sslrootcert={certificates.ca}")
        assert session.connection.info.get_parameters()["sslmode"] == "verify-full"
        assert session.connection.execute(
            "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
        ).fetchone() == (True,)
        session.connection.close()
        assert "certificate verify failed" in refused(f"{url}&sslrootcert={certificates.client}")
    finally:
        cluster.configure("ssl", "off")


def test_the_first_of_several_servers_that_takes_writes_is_taken(cluster: Cluster) -> None:
    gone = free_port()
    url = cluster.url()
    several = url.replace(
        f"host={cluster.folder}&port={cluster.port}",
        f"host=127.0.0.1,{cluster.folder}&port={gone},{cluster.port}",
    )
    assert several != url
    opened(several).connection.close()


def test_a_standby_is_refused(cluster: Cluster, role: str) -> None:
    """It takes no writes; sessions that are read-only look the same to whoever connects."""
    cluster.sql(f"ALTER ROLE {role} SET default_transaction_read_only = on")
    assert "name a server that takes writes" in refused(cluster.tcp_url(role, SECRET))


def test_a_url_that_libpq_does_not_take_is_not_quoted() -> None:
    assert "is not what libpq takes" in refused(f"postgresql://app:{SECRET}@host/ledger?unknown=1")


def test_a_database_of_another_encoding_is_refused(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = STATEMENTS["check_session"].replace("current_setting('server_encoding')", "'LATIN1'")
    monkeypatch.setitem(STATEMENTS, "check_session", asked)
    assert "has encoding LATIN1; create the database with --encoding=UTF8" in refused(cluster.url())


def test_a_server_that_does_not_wait_for_its_disk_is_refused(cluster: Cluster) -> None:
    cluster.configure("fsync", "off")
    try:
        assert "fsync = off" in refused(cluster.url())
    finally:
        cluster.configure("fsync", "on")
    opened(cluster.url()).connection.close()


def test_a_commit_waits_for_the_disk_whatever_the_role_is_set_to(cluster: Cluster) -> None:
    cluster.sql("ALTER ROLE turngate SET synchronous_commit = off")
    try:
        connection = opened(cluster.url()).connection
        assert connection.execute("SHOW synchronous_commit").fetchone() == ("on",)
        connection.close()
    finally:
        cluster.sql("ALTER ROLE turngate RESET synchronous_commit")


def test_a_server_that_is_too_old_is_refused(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_connection, "OLDEST_SERVER", 990_000)
    assert "a ledger needs 99 or later" in refused(cluster.url())


def test_a_schema_that_does_not_exist_is_to_be_created(cluster: Cluster) -> None:
    assert "CREATE SCHEMA turngate AUTHORIZATION turngate" in refused(cluster.url("nowhere"))


def test_a_server_that_is_silent_is_hung_up_on(cluster: Cluster) -> None:
    """SIGSTOP would look the same: the socket lives, and nothing answers."""
    connection = opened(cluster.url()).connection
    connection.execute("SET statement_timeout = 0")
    connection.patience_s = 0.2
    began = time.monotonic()
    with pytest.raises(psycopg.OperationalError, match="no answer"):
        connection.execute("SELECT pg_sleep(30)")
    assert time.monotonic() - began < 10
    assert connection.closed


def test_a_listener_that_never_says_a_word_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert "timeout" in refused(f"postgresql://app:{SECRET}@127.0.0.1:{port}/ledger")
