"""A load balancer or a server ends the connection in one of four ways, and the error says which."""

import signal
import socket
import subprocess
from collections.abc import Iterator

import idmatch
import pyarrow as pa
import pytest
from balancer import DROP, HALF_CLOSE, RESET, Balancer, wait_for
from conftest import Cli
from hive_server import Database
from idmatch._sources import Wanted, find

pytest_plugins = ["hive_server"]


@pytest.fixture
def balancer(database: Database) -> Iterator[Balancer]:
    database.run(
        "CREATE TABLE seen (id STRING, pid STRING, t TIMESTAMP) STORED AS PARQUET",
        "INSERT INTO seen VALUES ('a', 'x', TIMESTAMP '2026-11-20 10:30:00')",
    )
    made = Balancer(database.host, database.port)
    yield made
    made.close()


SAID = {
    RESET: "was reset: .*a load balancer ends connections that wait",
    DROP: "has sent nothing for 2 s: .*timeout=5m",
    HALF_CLOSE: "has closed the connection in the middle of an answer: .*raise its idle timeout",
}


@pytest.mark.parametrize(
    "word", [b"DESCRIBE", b"LIMIT 0", b"INSERT OVERWRITE", b"SELECT `id`", b"FetchResults"]
)
@pytest.mark.parametrize("how", SAID)
def test_broken_connections(
    database: Database, balancer: Balancer, store: idmatch.Store, how: str, word: bytes
) -> None:
    table = store.create_table("t")
    balancer.how, balancer.word = how, word
    # Rows are fetched by a call of this name, which no statement before them needs.
    vias = {b"DESCRIBE": "files", b"SELECT `id`": "rows", b"FetchResults": "rows"}
    via = vias.get(word, "unload")
    url = database.url("seen", port=balancer.port, via=via, timeout="2s")
    url = url.replace(database.host, "127.0.0.1")
    with pytest.raises(idmatch.SourceError, match=SAID[how]):
        table.load(url, columns=["id", "pid", "t"])
    assert pa.table(table.scan()).num_rows == 0
    balancer.how = ""
    assert database.staged() == []
    assert table.load(url, columns=["id", "pid", "t"]).rows == 1


@pytest.mark.parametrize("via", ["files", "unload", "rows"])
def test_no_connection_is_open_while_rows_are_used(
    database: Database, balancer: Balancer, via: str
) -> None:
    url = database.url("seen", port=balancer.port, via=via).replace(database.host, "127.0.0.1")
    (source,) = find(url)
    opened = source.open(Wanted({"id": "id"}), None)
    wait_for(lambda: balancer.open == 0)
    assert opened.reader.read_all().to_pydict() == {"id": ["a"]}


def test_a_frozen_server_ends_the_read(
    database: Database, balancer: Balancer, store: idmatch.Store
) -> None:
    """Before a login, a server that accepts connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"hive://127.0.0.1:{silent.getsockname()[1]}/d/t?timeout=500ms"
        with pytest.raises(idmatch.SourceError, match=r"has sent nothing for 0\.5 s"):
            store.create_table("t").load(url)


def test_ctrl_c_ends_a_query(database: Database, balancer: Balancer, cli: Cli) -> None:
    """The command ends long before the query would, and closes its session."""
    balancer.word = b"INSERT OVERWRITE"
    address = f"hive://127.0.0.1:{balancer.port}/{database.name}"
    hours = "reflect('java.lang.Thread', 'sleep', length(id) * 3600000L)"
    query = f"SELECT {hours} AS id, id AS partner_id, t AS seen_at FROM seen"
    running = subprocess.Popen(
        cli.command("load", "S", "t", address, "--query", query),
        cwd=cli.home,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert balancer.saw.wait(120)
    running.send_signal(signal.SIGINT)
    _, said = running.communicate()
    assert running.returncode == 130, said
    wait_for(lambda: balancer.open == 0)
    assert database.staged() == []
