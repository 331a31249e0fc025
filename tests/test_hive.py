"""Addresses of Hive, and what needs no server of it; tests/engines/hive has the others."""

import gc
import pickle
import socket
import threading
from contextlib import suppress
from pathlib import Path
from typing import cast

import idmatch
import pytest
from conftest import Cli
from idmatch import _hive
from idmatch._address import Address


@pytest.fixture
def empty(store: idmatch.Store) -> idmatch.Table:
    return store.create_table("t")


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("hive://h:1/d", "names no table"),
        ("hive://h:1/", "names no database and table"),
        ("hive://h:1/d/t/u", "names no database and table"),
        ("hive://h:port/d/t", "is no address of Hive"),
        ("hive:///d/t", "names no database and table"),
        ("hive://h/d/t?auth=md5", "auth is none of none, ldap, kerberos, nosasl"),
        ("hive://h/d/t?via=magic", "via is none of auto, files, unload, rows"),
        ("hive://h/d/t?tls=maybe", "tls is none of true, false"),
        ("hive://h/d/t?timeout=soon", "timeout is no length of time"),
        ("hive://h/d/t?colour=red", "has an option that is none of auth, via"),
        ("hive://h/d/t?auth", "is no address of Hive"),
        (idmatch.Hive("hive://h/d/t", query="SELECT 1"), "names a table beside a query"),
        (idmatch.Hive("hive://h/d", query="SELECT 1", via="files"), "a query has no files"),
    ],
)
def test_wrong_addresses(empty: idmatch.Table, source: str | idmatch.Hive, said: str) -> None:
    with pytest.raises(idmatch.InvalidArgument, match=said):
        empty.load(source)


def test_wrong_queries() -> None:
    with pytest.raises(idmatch.InvalidArgument, match=r"p\.csv is no address of Hive"):
        idmatch.Hive("p.csv", query="SELECT 1")
    with pytest.raises(idmatch.InvalidArgument, match="use one of auto, files, unload, rows"):
        idmatch.Hive("hive://h/d/t", via=cast("None", "magic"))


def test_servers_that_do_not_answer(empty: idmatch.Table) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"hive://127.0.0.1:{silent.getsockname()[1]}/d/t"
        with pytest.raises(idmatch.SourceError, match=r"has sent nothing for 0\.3 s"):
            empty.load(f"{address}?timeout=300ms")
        with pytest.raises(idmatch.IoError, match=r"cannot write .* sent nothing for 0\.3 s"):
            empty.scan().write(f"{address}?timeout=300ms")
    with pytest.raises(idmatch.SourceError, match=r"no connection to .*Connection refused"):
        empty.load(address)


def test_a_peer_that_is_gone_is_noticed(empty: idmatch.Table) -> None:
    """While a query runs nothing is sent: the system asks, long before 300 s have passed."""
    found = dict[int, int]()

    def options_of(connection: socket.socket) -> dict[int, int]:
        tcp = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
        options = {name: connection.getsockopt(socket.IPPROTO_TCP, name) for name in tcp}
        silent = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
        alive = connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        return {socket.SO_KEEPALIVE: alive, socket.TCP_USER_TIMEOUT: silent, **options}

    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]

        def watch() -> None:
            # The login has arrived, so all options are set.
            there, _ = silent.accept()
            with there:
                there.recv(1)
                for each in gc.get_objects():
                    if isinstance(each, socket.socket) and each.fileno() >= 0:
                        with suppress(OSError):
                            if each.getpeername() == ("127.0.0.1", port):
                                found.update(options_of(each))

        watcher = threading.Thread(target=watch)
        watcher.start()
        with pytest.raises(idmatch.SourceError):
            empty.load(f"hive://127.0.0.1:{port}/d/t?timeout=5s")
        watcher.join()
    idle, between = found[socket.TCP_KEEPIDLE], found[socket.TCP_KEEPINTVL]
    assert found[socket.SO_KEEPALIVE]
    assert idle + between * found[socket.TCP_KEEPCNT] < 300
    assert found[socket.TCP_USER_TIMEOUT] == 5_000


@pytest.mark.parametrize("auth", ["", "&auth=ldap"])
def test_user_and_password_log_in(empty: idmatch.Table, auth: str) -> None:
    """By SASL's PLAIN, to a server that hangs up behind it."""
    heard = bytearray()
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(60)

        def listen() -> None:
            there, _ = server.accept()
            with there:
                while b"hunter2" not in heard and (more := there.recv(1000)):
                    heard.extend(more)

        listener = threading.Thread(target=listen)
        listener.start()
        address = f"hive://ann:hunter2@127.0.0.1:{server.getsockname()[1]}/d/t?timeout=5s{auth}"
        with pytest.raises(idmatch.SourceError) as raised:
            empty.load(address)
        listener.join()
    assert b"PLAIN" in heard
    assert heard.endswith(b"\0ann\0hunter2")
    assert "hunter2" not in str(raised.value)


def test_secrets_stay(empty: idmatch.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pickle has all of an address, and what is shown has no secret of it."""
    hive = idmatch.Hive("hive://me:hunter2@127.0.0.1:1/d", query="SELECT 'hunter2'")
    assert repr(hive) == "Hive('hive://127.0.0.1:1/d')"
    assert pickle.loads(pickle.dumps(hive)) == hive
    with pytest.raises(idmatch.SourceError) as raised:
        empty.load(hive)
    assert "hunter2" not in str(raised.value)
    monkeypatch.setenv("IDMATCH_HIVE_USER", "u")
    monkeypatch.setenv("IDMATCH_HIVE_PASSWORD", "p")
    place = _hive.place_of(Address("hive://h/d/a%20b?auth=ldap&timeout=5m"))
    assert (place.user, place.password, place.mechanism) == ("u", "p", "LDAP")
    assert (place.table, place.port, place.timeout) == ("a b", 10000, 300)
    assert _hive.place_of(Address("hive://h/d")).timeout == 60
    place = _hive.place_of(Address("hive://a%40b:p%2Fq@h:1/d/t?auth=kerberos&kerberos_host=lb"))
    assert (place.user, place.password) == ("a@b", "p/q")
    assert (place.mechanism, place.kerberos_host, place.kerberos_service) == (
        "GSSAPI",
        "lb",
        "hive",
    )


class Described:
    """Answers as HiveServer2 does for a transactional table, which needs a metastore for it."""

    def ask(self, _: str) -> list[tuple[str, ...]]:
        return [
            ("id", "string", ""),
            ("", "", ""),
            ("# Detailed Table Information", "", ""),
            ("Location:           ", "hdfs://lab/t", ""),
            ("Table Type:         ", "MANAGED_TABLE       ", ""),
            ("Table Parameters:", "", ""),
            ("", "transactional       ", "true                "),
            ("# Storage Information", "", ""),
            ("InputFormat:        ", "org.apache.hadoop.hive.ql.io.orc.OrcInputFormat", ""),
        ]


def test_transactional_tables() -> None:
    place = _hive.place_of(Address("hive://h/d/t"))
    table = _hive.table_of(cast("_hive.Server", Described()), place)
    assert [column.name for column in table.columns] == ["id"]
    with pytest.raises(_hive.Unfit, match="it is transactional"):
        _ = table.format


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["load", "S", "t", "a.csv", "--via", "rows"], "--query and --via are for Hive"),
        (["load", "S", "t", "hive://h/d", "hive://h/e", "--query", "SELECT 1"], "is for one"),
        (["match", "S", "t", "p.csv", "-o", "out.csv", "--partition", "a=b"], "is for -o hive://"),
        (["match", "S", "t", "p.csv", "-o", "hive://h/d/t", "--format", "csv"], "leave formats"),
        (["match", "S", "t", "p.csv", "--unmatched", "hive://h/d/t"], "leave formats"),
        (["match", "S", "t", "p.csv", "-o", "hive://h/d/t", "--partition", "a"], "COLUMN=VALUE"),
        (["match", "S", "t", "p.csv", "-o", "hive://h/d", "--partition", "a=b"], "names no table"),
    ],
)
def test_wrong_commands(cli: Cli, arguments: list[str], said: str) -> None:
    ran = cli(*arguments)
    assert ran.code == 2
    assert said in ran.err


def test_a_partition_is_for_hive(empty: idmatch.Table, tmp_path: Path) -> None:
    with pytest.raises(idmatch.InvalidArgument, match="partition is for hive://"):
        empty.scan().write(tmp_path / "out.csv", partition={"a": "b"})
    with pytest.raises(idmatch.InvalidArgument, match="leave formats and cuts out"):
        empty.scan().write("hive://h/d/t", max_rows_per_file=5)
