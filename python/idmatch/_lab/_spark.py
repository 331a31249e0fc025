"""Spark: a standalone master and two workers, of the PySpark that is installed here.

They listen on A.B.C.1 to A.B.C.3 of the lab's network: Spark repeats a slow task on another host
only. Each worker has half of the cores, and 2 GiB for executors, which have 1 GiB unless an
application says otherwise.
"""

import json
import os
import sys
import urllib.request
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path

from idmatch._errors import Error

from . import _jars
from ._daemon import Daemon
from ._ports import check_free
from ._service import Service, Tell

_PORT = 7077
_PAGE_PORT = 8080
_WORKERS = 2
_MEMORY = "2g"
_READY_SECONDS = 120.0
_DEPLOY = "org.apache.spark.deploy"
_CORE = "spark-core_"
_JAVA_VERSIONS = (17, 21)


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
        """The address of the master, for `SparkSession.builder.master`."""
        return f"spark://{self._host(1)}:{_PORT}"

    @property
    def environment(self) -> Mapping[str, str]:
        """The Python of tasks: the one that has idmatch."""
        return {"PYSPARK_PYTHON": sys.executable}

    def check(self) -> None:
        """See `Service`: PySpark, its jars and their Java."""
        _core_jar()
        _jars.java("Spark 4", _JAVA_VERSIONS)

    def start(self) -> None:
        """See `Service`. Raises the errors of `check`."""
        core = _core_jar()
        java = _jars.java("Spark 4", _JAVA_VERSIONS)
        self.folder.mkdir(parents=True, exist_ok=True)
        self._keep_network()
        for number, daemon in enumerate(self.daemons, start=1):
            if daemon.process is None:
                check_free(self._host(number), _PAGE_PORT)
                self._run(daemon, number, core, java)
            daemon.wait_until(self._has_workers(number - 1), _READY_SECONDS)

    def _run(self, daemon: Daemon, number: int, core: Path, java: str) -> None:
        """Starts the master, which is number 1, or a worker."""
        self._tell(f"starting {daemon.name}")
        host, is_master = self._host(number), number == 1
        port = _PORT if is_master else 0
        where = ["--host", host, "--port", str(port), "--webui-port", str(_PAGE_PORT)]
        if is_master:
            check_free(host, _PORT)
            program = [f"{_DEPLOY}.master.Master", *where]
        else:
            cores = str(max(1, (os.cpu_count() or 1) // _WORKERS))
            room = ["--cores", cores, "--memory", _MEMORY, "--work-dir", f"{self.folder}/{number}"]
            program = [f"{_DEPLOY}.worker.Worker", *where, *room, self.address]
        # A worker finds the jars of its executors by SPARK_HOME and SPARK_SCALA_VERSION. Without
        # SPARK_LOCAL_IP, pages listen on all addresses.
        environment = {
            "SPARK_HOME": str(core.parents[1]),
            "SPARK_SCALA_VERSION": core.name.removeprefix(_CORE).partition("-")[0],
            "SPARK_LOCAL_IP": host,
        }
        daemon.start(["-Xmx256m", "-XX:+UseSerialGC"], core.parent, program, environment, java)

    def _host(self, number: int) -> str:
        return f"{self._network}.{number}"

    def _page(self, number: int) -> str:
        return f"http://{self._host(number)}:{_PAGE_PORT}"

    def _has_workers(self, count: int) -> Callable[[], bool]:
        """Returns a check: whether the master answers, and has at least `count` workers."""

        def ask() -> bool:
            # A proxy of the environment knows no loopback address.
            opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
            try:
                with opener.open(f"{self.master.address}/json/", timeout=10) as answer:
                    return int(json.load(answer)["aliveworkers"]) >= count
            except (OSError, ValueError):
                return False

        return ask


def _core_jar() -> Path:
    """The jar of Spark's core in the PySpark that is installed here."""
    found = find_spec("pyspark")
    if found is None or found.origin is None:
        raise Error("spark needs PySpark: install idmatch with its extra 'spark'")
    home = Path(found.origin).parent
    jar = next((home / "jars").glob(f"{_CORE}*.jar"), None)
    if jar is None:
        raise Error(f"the PySpark in {home} has no jars; install idmatch with its extra 'spark'")
    return jar
