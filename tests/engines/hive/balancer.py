"""A load balancer before a server, which breaks connections in three ways."""

import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress

RESET, DROP, HALF_CLOSE = "reset", "drop", "half-close"


class Balancer:
    """Passes connections on to the server, until it breaks one.

    It does so when the client sends a statement that has `word`. The server does not get that,
    unless `passes_on`; what it answers does not arrive.
    """

    def __init__(self, host: str, port: int) -> None:
        self._to = (host, port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.word = b""
        self.how = ""
        self.passes_on = False
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
                        if not self.passes_on:
                            continue
                server.sendall(data)
        self.open -= 1
        with suppress(OSError):
            server.shutdown(socket.SHUT_WR)

    def _break(self, client: socket.socket) -> None:
        if self.how == RESET:
            linger = struct.pack("ii", 1, 0)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            client.close()
        elif self.how == HALF_CLOSE:
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


def wait_for(is_so: Callable[[], bool]) -> None:
    """Waits for an event that comes."""
    pause = threading.Event()
    while not is_so():
        pause.wait(0.01)
