"""A load balancer or a server ends the connection in one of four ways, and the error says which."""

import signal
import socket
import struct
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress

import idmatch
import pyarrow as pa
import pytest
from conftest import Cli
from hive_server import Database
from idmatch._sources import Wanted, find

pytest_plugins = ["hive_server"]

RESET, DROP, HALF_CLOSE = "reset", "drop", "half-close"


class Balancer:
    """Passes connections on to the server, until it breaks one.

    It does so when the client has sent a statement that has `word`: then what the server answers
    does not arrive.
    """

    def __init__(self, host: str, port: int) -> None:
        self._to = (host, port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.word = b""
        self.how = ""
        self.open = 0
        self.saw = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._to)
                self.open += 1
                broken = threading.Event()
                for pump in (self._to_server, self._to_client):
                    threading.Thread(
                        target=pump, args=(client, server, broken), daemon=True
                    ).start()

    def _to_server(
        self, client: socket.socket, server: socket.socket, broken: threading.Event
    ) -> None:
        with suppress(OSError):
            while data := client.recv(1 << 16):
                if self.word and self.word in data:
                    self.saw.set()
                    if self.how:
                        broken.set()
                        self._break(client)
                        continue
                server.sendall(data)
        self.open -= 1
        with suppress(OSError):
            server.shutdown(socket.SHUT_WR)

    def _break(self, client: socket.socket) -> None:
        match self.how:
            case "reset":
                linger = struct.pack("ii", 1, 0)
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                client.close()
            case "half-close":
                client.shutdown(socket.SHUT_WR)

    def _to_client(
        self, client: socket.socket, server: socket.socket, broken: threading.Event
    ) -> None:
        with suppress(OSError):
            while data := server.recv(1 << 16):
                if not broken.is_set():
                    client.sendall(data)
            if not broken.is_set():
                client.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._listener.close()


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
    HALF_CLOSE: "has closed the connection in the middle of an answer",
}


@pytest.mark.parametrize("word", [b"DESCRIBE", b"LIMIT 0", b"INSERT OVERWRITE", b"SELECT `id`"])
@pytest.mark.parametrize("how", SAID)
def test_broken_connections(
    database: Database, balancer: Balancer, store: idmatch.Store, how: str, word: bytes
) -> None:
    table = store.create_table("t")
    balancer.how, balancer.word = how, word
    via = {b"DESCRIBE": "files", b"SELECT `id`": "rows"}.get(word, "unload")
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


def wait_for(is_so: Callable[[], bool]) -> None:
    """Waits for an event that comes."""
    pause = threading.Event()
    while not is_so():
        pause.wait(0.01)


def test_a_frozen_server_ends_the_read(
    database: Database, balancer: Balancer, store: idmatch.Store
) -> None:
    """Before a login, a server that accepts connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"hive://127.0.0.1:{silent.getsockname()[1]}/d/t?timeout=500ms"
        with pytest.raises(idmatch.SourceError, match=r"has sent nothing for 0\.5 s"):
            store.create_table("t").load(url)


def test_ctrl_c_ends_a_query(database: Database, balancer: Balancer, cli: Cli) -> None:
    """The command ends long before the query would, and the server ends the query."""
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
