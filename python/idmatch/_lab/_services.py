"""Servers that a lab has besides Cassandra, each by its name.

To add a server, write a subclass of `Service` in a module of its own, and add a line here, after
the servers that it uses.
"""

import shutil
from collections.abc import Iterable
from pathlib import Path

from idmatch._errors import InvalidArgument

from ._hdfs import Hdfs
from ._hive import Hive
from ._prometheus import Prometheus
from ._service import Service, Tell
from ._spark import Spark

_CLASSES: dict[str, type[Service]] = {
    "hdfs": Hdfs,
    "hive": Hive,
    "spark": Spark,
    "monitoring": Prometheus,
}


def service(name: str, folder: Path, tell: Tell, network: str | None = None) -> Service:
    """The service of that name in the folder of a lab. Without `network`, on its former one.

    Raises InvalidArgument for an unknown name, and for one that runs on another network.
    """
    if name not in _CLASSES:
        raise InvalidArgument(f"a lab has no service {name!r}; there are {', '.join(_CLASSES)}")
    place = folder.absolute() / name
    found, former = _CLASSES[name](place, tell, network), _CLASSES[name](place, tell)
    if found.address != former.address and any(daemon.process for daemon in former.daemons):
        raise InvalidArgument(
            f"{name} runs at {former.address}; name its --network, or stop it first: lab down"
        )
    return found


def in_order(names: Iterable[str]) -> list[str]:
    """The same names, each server after the servers that it uses; unknown names first."""
    known = list(_CLASSES)
    return sorted(names, key=lambda name: known.index(name) if name in known else -1)


def services(folder: Path, tell: Tell) -> dict[str, Service]:
    """The services that were started in the folder of a lab, and were not wiped."""
    found = [name for name in _CLASSES if (folder / name).is_dir()]
    return {name: service(name, folder, tell) for name in found}


def wipe(name: str, folder: Path) -> None:
    """Removes the data of a service that is stopped."""
    shutil.rmtree(folder / name, ignore_errors=True)
