"""The base class of a lab's servers other than Cassandra. `_services.py` names the servers."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from . import _jars
from ._daemon import Daemon

Tell: TypeAlias = Callable[[str], object]
"""Takes a line about progress."""


class Service(ABC):
    """Servers in a folder, on loopback addresses. Other processes find the running servers."""

    def __init__(
        self, folder: Path, tell: Tell = lambda _: None, network: str | None = None
    ) -> None:
        """`network` is the first three numbers of its addresses: by default the former one, or
        127.0.0.
        """
        self.folder = folder.absolute()
        self._tell = tell
        kept = self._network_file
        self._network = network or (kept.read_text() if kept.exists() else "127.0.0")

    @property
    @abstractmethod
    def daemons(self) -> Sequence[Daemon]:
        """Its programs, running or not."""

    @property
    @abstractmethod
    def address(self) -> str:
        """The address by which users name it."""

    @property
    def environment(self) -> Mapping[str, str]:
        """Variables that its users set."""
        return {}

    def check(self) -> None:
        """Raises Error if a program that it needs is missing; starts nothing."""
        _jars.java()

    @abstractmethod
    def start(self) -> None:
        """Starts programs that do not run, and returns when they answer. Raises Busy and Error."""

    def stop(self) -> None:
        """Stops it; its data stays."""
        for daemon in reversed(self.daemons):
            if daemon.process:
                self._tell(f"stopping {daemon.name}")
                daemon.stop()

    def _keep_network(self) -> None:
        self._network_file.write_text(self._network)

    @property
    def _network_file(self) -> Path:
        return self.folder / "network"
