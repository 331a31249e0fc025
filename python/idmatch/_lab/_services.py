"""Servers that a lab has besides Cassandra, each by its name in a module of its own.

A new one is a class as `Service` says, and a line in `_CLASSES`, behind those that it uses.
"""

import shutil
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Protocol, TypeAlias, cast

from idmatch._errors import InvalidArgument

from ._daemon import Daemon

_CLASSES = {
    "hdfs": ("_hdfs", "Hdfs"),
    "hive": ("_hive", "Hive"),
    "monitoring": ("_prometheus", "Prometheus"),
}

_NETWORK = "network"

Tell: TypeAlias = Callable[[str], object]
"""Takes a line about progress."""


class Service(Protocol):
    """Servers in a folder, on loopback addresses. Made by `Class(folder, tell, network)`."""

    @property
    def daemons(self) -> Sequence[Daemon]:
        """Its programs, running or not."""

    @property
    def address(self) -> str:
        """What users name it by."""

    @property
    def environment(self) -> Mapping[str, str]:
        """Variables that its users set."""

    def start(self) -> None:
        """Starts what does not run, and returns when it answers. Raises Busy and Error."""

    def stop(self) -> None:
        """Stops it; its data stays."""


def service(name: str, folder: Path, tell: Tell, network: str | None = None) -> Service:
    """The service of that name in the folder of a lab. Without `network`, on the one it had.

    Raises InvalidArgument for an unknown name.
    """
    if name not in _CLASSES:
        raise InvalidArgument(f"a lab has no service {name!r}; there are {', '.join(_CLASSES)}")
    module, kind = _CLASSES[name]
    made = getattr(import_module(f"{__package__}.{module}"), kind)
    return cast("Service", made(folder.absolute() / name, tell, network))


def services(folder: Path, tell: Tell) -> dict[str, Service]:
    """Those that were started in the folder of a lab, and that were not wiped."""
    found = [name for name in _CLASSES if (folder / name).is_dir()]
    return {name: service(name, folder, tell) for name in found}


def network_of(folder: Path, said: str | None) -> str:
    """The first three numbers of the addresses of a service: as said, or those that it had."""
    kept = folder / _NETWORK
    return said or (kept.read_text() if kept.exists() else "127.0.0")


def keep_network(folder: Path, network: str) -> None:
    """Keeps them for `network_of`."""
    (folder / _NETWORK).write_text(network)


def wipe(name: str, folder: Path) -> None:
    """Removes the data of a service that is stopped."""
    shutil.rmtree(folder / name, ignore_errors=True)
