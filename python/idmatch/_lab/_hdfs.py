"""HDFS: an active and a standby namenode, and three datanodes. Files have two copies.

Namenodes listen on A.B.C.1 and A.B.C.2 of the lab's network, datanodes on ports that are free. The
namenodes share their edits in a folder. There is no automatic failover: call `fail_over`.
"""

import json
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Mapping
from importlib import resources
from pathlib import Path

from idmatch._errors import Error

from . import _jars
from ._daemon import Daemon
from ._ports import check_free, listens
from ._service import Service, Tell
from ._sites import site

VERSION = "3.4.2"
"""The version of Apache Hadoop."""

_RPC_PORT = 8020
_HTTP_PORT = 9870
_DATANODES = 3
_READY_SECONDS = 120.0
_ASK_SECONDS = 5.0
# Small blocks: a file of some megabytes is on all datanodes.
_BLOCK_BYTES = 32 << 20
_JVM = (
    "-Xmx192m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    # Jersey, which serves WebHDFS, opens it.
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
)
_SERVER = "org.apache.hadoop.hdfs.server"
# Web pages of the servers, which look for these folders.
_PAGES = ("hdfs", "datanode", "static")


class Hdfs(Service):
    """A cluster in a folder."""

    def __init__(
        self, folder: Path, tell: Tell = lambda _: None, network: str | None = None
    ) -> None:
        """See `Service`."""
        super().__init__(folder, tell, network)
        self.namenodes = [
            Daemon(f"namenode{n}", self.folder, f"hdfs://{self._network}.{n}:{_RPC_PORT}")
            for n in (1, 2)
        ]
        self.datanodes = [Daemon(f"datanode{n + 1}", self.folder) for n in range(_DATANODES)]

    @property
    def daemons(self) -> list[Daemon]:
        """See `Service`."""
        return [*self.namenodes, *self.datanodes]

    @property
    def address(self) -> str:
        """The name service, which the configuration in HADOOP_CONF_DIR defines."""
        return "hdfs://lab"

    @property
    def environment(self) -> Mapping[str, str]:
        """See `Service`."""
        return {"HADOOP_CONF_DIR": str(self._conf)}

    def web_address(self, number: int) -> str:
        """The WebHDFS address of a namenode, counted from 1."""
        return f"webhdfs://{self._network}.{number}:{_HTTP_PORT}"

    def start(self) -> None:
        """See `Service`. Fetches Hadoop (about 60 MB) if it is missing."""
        for number, namenode in enumerate(self.namenodes, 1):
            if namenode.process is None:
                for port in (_RPC_PORT, _HTTP_PORT):
                    check_free(f"{self._network}.{number}", port)
        self._configure()
        if not self._name_folder(1).exists():
            self._format()
        for number in (1, 2):
            self._start_namenode(number)
        for number in range(1, _DATANODES + 1):
            self._start_datanode(number)
        for number, namenode in enumerate(self.namenodes, 1):
            host = f"{self._network}.{number}"
            namenode.wait_until(lambda host=host: listens(host, _RPC_PORT), _READY_SECONDS)  # type: ignore[misc]
        if self.active is None:
            self._admin("-transitionToActive", "nn1")
        self._wait_until_ready(_DATANODES)

    @property
    def active(self) -> int | None:
        """The number of the active namenode, counted from 1; None if none is active."""
        for number in (1, 2):
            if self._ask(number, "NameNodeStatus").get("State") == "active":
                return number
        return None

    def fail_over(self) -> int:
        """Makes the other namenode active, and returns its number. Takes some seconds."""
        before = self.active or 1
        after = 3 - before
        self._admin("-failover", f"nn{before}", f"nn{after}")
        return after

    def kill_datanode(self, number: int) -> None:
        """Kills a datanode, counted from 1, as a crash does."""
        self.datanodes[number - 1].kill()

    def start_datanode(self, number: int) -> None:
        """Starts a datanode that was killed, and waits until both namenodes know its new ports."""
        known = [self._live(namenode) for namenode in (1, 2)]
        self._start_datanode(number)
        started = self.datanodes[number - 1]
        for namenode, before in enumerate(known, 1):
            started.wait_until(
                lambda namenode=namenode, before=before: bool(self._live(namenode) - before),  # type: ignore[misc]
                _READY_SECONDS,
            )
        self._wait_until_ready(sum(each.process is not None for each in self.datanodes))

    def _live(self, namenode: int) -> set[str]:
        """The addresses of the datanodes that a namenode takes for alive."""
        return set(json.loads(str(self._ask(namenode, "NameNodeInfo").get("LiveNodes", "{}"))))

    @property
    def _conf(self) -> Path:
        return self.folder / "conf"

    def _name_folder(self, number: int) -> Path:
        return self.folder / f"name{number}"

    def _configure(self) -> None:
        for page in _PAGES:
            (self._conf / "webapps" / page).mkdir(parents=True, exist_ok=True)
        self._keep_network()
        log4j = resources.files(__package__).joinpath("log4j.properties").read_text()
        (self._conf / "log4j.properties").write_text(log4j)
        core = {"fs.defaultFS": self.address, "hadoop.tmp.dir": f"{self.folder}/tmp"}
        (self._conf / "core-site.xml").write_text(site(core))
        (self._conf / "hdfs-site.xml").write_text(site(self._settings()))

    def _settings(self) -> dict[str, str]:
        settings = {
            "dfs.nameservices": "lab",
            "dfs.ha.namenodes.lab": "nn1,nn2",
            "dfs.client.failover.proxy.provider.lab": (
                "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider"
            ),
            "dfs.namenode.shared.edits.dir": f"file://{self.folder}/edits",
            # Both namenodes are on this machine, and a killed one writes no more.
            "dfs.ha.fencing.methods": "shell(/bin/true)",
            "dfs.replication": "2",
            "dfs.blocksize": str(_BLOCK_BYTES),
            "dfs.datanode.hostname": "127.0.0.1",
            "dfs.namenode.datanode.registration.ip-hostname-check": "false",
            # A standby is up to date, and a dead datanode known, within seconds.
            "dfs.ha.tail-edits.period": "1s",
            "dfs.heartbeat.interval": "1",
            "dfs.namenode.heartbeat.recheck-interval": "2000",
            "dfs.namenode.safemode.extension": "0",
        }
        for number in (1, 2):
            host = f"{self._network}.{number}"
            settings[f"dfs.namenode.rpc-address.lab.nn{number}"] = f"{host}:{_RPC_PORT}"
            settings[f"dfs.namenode.http-address.lab.nn{number}"] = f"{host}:{_HTTP_PORT}"
        for name in ("address", "http.address", "ipc.address"):
            settings[f"dfs.datanode.{name}"] = "127.0.0.1:0"
        return settings

    def _format(self) -> None:
        self._tell("making a file system")
        # Removes the rest of a formatting that was stopped.
        shutil.rmtree(self.folder / "edits", ignore_errors=True)
        shutil.rmtree(self.folder / "formatting", ignore_errors=True)
        made = self.folder / "formatting"
        place = [f"-Ddfs.namenode.name.dir=file://{made}", "-Ddfs.ha.namenode.id=nn1"]
        options = ["-format", "-nonInteractive", "-clusterId", "lab"]
        self._run(f"{_SERVER}.namenode.NameNode", *place, *options)
        shutil.rmtree(self._name_folder(2), ignore_errors=True)
        shutil.copytree(made, self._name_folder(2))
        made.rename(self._name_folder(1))

    def _start_namenode(self, number: int) -> None:
        place = f"-Ddfs.namenode.name.dir=file://{self._name_folder(number)}"
        program = [f"{_SERVER}.namenode.NameNode", place, f"-Ddfs.ha.namenode.id=nn{number}"]
        self._start(self.namenodes[number - 1], program)

    def _start_datanode(self, number: int) -> None:
        place = f"-Ddfs.datanode.data.dir=file://{self.folder}/data{number}"
        self._start(self.datanodes[number - 1], [f"{_SERVER}.datanode.DataNode", place])

    def _start(self, daemon: Daemon, program: list[str]) -> None:
        if daemon.process is None:
            self._tell(f"starting {daemon.name}")
            daemon.start(_JVM, self._jars(), program)

    def _wait_until_ready(self, datanodes: int) -> None:
        until = time.monotonic() + _READY_SECONDS
        while True:
            active = self.active
            state = self._ask(active, "FSNamesystemState") if active else {}
            live = state.get("NumLiveDataNodes")
            if live == datanodes and state.get("FSState") == "Operational":
                return
            ended = [daemon for daemon in self.daemons if daemon.process is None]
            if time.monotonic() > until:
                why = f"{ended[0].name}: {ended[0].last_error()}" if ended else f"see {self.folder}"
                raise Error(f"HDFS was not ready within {_READY_SECONDS:.0f} s; {why}")
            time.sleep(0.1)

    def _ask(self, number: int, bean: str) -> dict[str, object]:
        """The values of a JMX bean of a namenode; empty if it does not answer."""
        url = f"http://{self._network}.{number}:{_HTTP_PORT}/jmx?qry=Hadoop:service=NameNode,name="
        # A proxy of the environment knows no loopback address.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(url + bean, timeout=_ASK_SECONDS) as answer:
                beans = json.load(answer)["beans"]
        except (OSError, ValueError, KeyError):
            return {}
        return dict(beans[0]) if beans else {}

    def _admin(self, *arguments: str) -> None:
        self._run("org.apache.hadoop.hdfs.tools.DFSHAAdmin", *arguments)

    def _run(self, program: str, *arguments: str) -> None:
        command = [_jars.java(), *_JVM, "-cp", f"{self._conf}:{self._jars()}/*", program]
        ran = subprocess.run([*command, *arguments], capture_output=True, text=True)
        if ran.returncode != 0:
            why = " ".join((ran.stdout + ran.stderr).split())[-600:]
            raise Error(f"{program.rpartition('.')[2]} {' '.join(arguments)} failed: {why}")

    def _jars(self) -> Path:
        return _jars.fetched("Hadoop", VERSION, "hdfs-pom.xml")
