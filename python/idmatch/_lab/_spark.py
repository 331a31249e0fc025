"""Spark: a standalone master and two workers, of the PySpark that is installed here.

They listen on A.B.C.1 to A.B.C.3 of the lab's network: Spark repeats a slow task on another host
only. Executors have 1 GiB unless an application says otherwise; each worker has room for two.
"""

import json
import os
import sys
import urllib.request
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from idmatch._errors import Error

from ._daemon import Daemon
from ._ports import check_free
from ._service import Service, Tell

_PORT = 7077
_PAGE_PORT = 8080
_WORKERS = 2
_MEMORY = "2g"
_READY_SECONDS = 120.0
_DEPLOY = "org.apache.spark.deploy"


class Spark(Service):
    """A cluster in a folder."""

    def __init__(
        self, folder: Path, tell: Tell = lambda _: None, network: str | None = None
    ) -> None:
        """See `Service`."""
        super().__init__(folder, tell, network)
        self.master = Daemon("spark-master", self.folder, self._page(1))
        self.workers = [
            Daemon(f"spark-worker{number}", self.folder, self._page(1 + number))
            for number in range(1, _WORKERS + 1)
        ]

    @property
    def daemons(self) -> list[Daemon]:
        """See `Service`."""
        return [self.master, *self.workers]

    @property
    def address(self) -> str:
        """What `SparkSession.builder.master` takes."""
        return f"spark://{self._host(1)}:{_PORT}"

    @property
    def environment(self) -> Mapping[str, str]:
        """The Python of tasks: the one that has idmatch."""
        return {"PYSPARK_PYTHON": sys.executable}

    def start(self) -> None:
        """See `Service`. Raises Error without PySpark."""
        home = _home()
        self.folder.mkdir(parents=True, exist_ok=True)
        self._keep_network()
        self._start(self.master, 1, home, _PORT, [f"{_DEPLOY}.master.Master"])
        self.master.wait_until(lambda: self._alive() is not None, _READY_SECONDS)
        room = ["--cores", str(max(1, (os.cpu_count() or 1) // _WORKERS)), "--memory", _MEMORY]
        for number, worker in enumerate(self.workers, start=2):
            work = ["--work-dir", f"{self.folder}/work{number}", self.address]
            self._start(worker, number, home, 0, [f"{_DEPLOY}.worker.Worker", *room, *work])
        self.workers[-1].wait_until(lambda: self._alive() == _WORKERS, _READY_SECONDS)

    def _start(
        self, daemon: Daemon, number: int, home: Path, port: int, program: list[str]
    ) -> None:
        if daemon.process is not None:
            return
        host = self._host(number)
        for each in (port, _PAGE_PORT):
            check_free(host, each)
        self._tell(f"starting {daemon.name}")
        # A worker finds the jars of its executors by the first two. Pages listen everywhere unless
        # SPARK_LOCAL_IP says where.
        [core] = (home / "jars").glob("spark-core_*.jar")
        environment = {
            "SPARK_HOME": str(home),
            "SPARK_SCALA_VERSION": core.name.removeprefix("spark-core_").partition("-")[0],
            "SPARK_LOCAL_IP": host,
        }
        where = ["--host", host, "--port", str(port), "--webui-port", str(_PAGE_PORT)]
        options = ["-Xmx256m", "-XX:+UseSerialGC"]
        daemon.start(options, home / "jars", [program[0], *where, *program[1:]], environment)

    def _host(self, number: int) -> str:
        return f"{self._network}.{number}"

    def _page(self, number: int) -> str:
        return f"http://{self._host(number)}:{_PAGE_PORT}"

    def _alive(self) -> int | None:
        """How many workers the master has; None where it does not answer."""
        # A proxy of the environment knows no loopback address.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(f"{self.master.address}/json/", timeout=10) as answer:
                return int(json.load(answer)["aliveworkers"])
        except (OSError, ValueError):
            return None


def _home() -> Path:
    """The folder of the PySpark that is installed here."""
    found = find_spec("pyspark")
    if found is None or found.origin is None:
        raise Error("spark needs PySpark: pip install 'idmatch[spark]'")
    return Path(found.origin).parent
