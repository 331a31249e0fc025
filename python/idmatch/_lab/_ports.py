"""Ports that servers of a lab listen on."""

import socket

from idmatch._errors import Busy


def check_free(address: str, port: int) -> None:
    """Raises Busy if another program listens there."""
    with socket.socket() as probe:
        # Recently closed connections do not block the port, as they do not for Java.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError as error:
            raise Busy(
                f"cannot listen on {address}:{port} ({error.strerror}): another lab or server "
                "may be there; stop it, or name another network: --network 127.0.1"
            ) from error


def listens(address: str, port: int) -> bool:
    """Whether a program listens there."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((address, port)) == 0
