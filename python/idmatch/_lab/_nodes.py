"""One node: its files, its process and its state."""

import json
import os
import re
import socket
import string
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Literal

import psutil

from idmatch._errors import Error

from . import _jars
from ._ports import check_free

CQL_PORT = 9042
_STORAGE_PORT = 7000
_READY_SECONDS = 180.0

State = Literal["up", "starting", "frozen", "down"]


@dataclass(frozen=True)
class Node:
    """A node by number, and the pid of its process if it was started."""

    number: int
    address: str
    folder: Path
    heap: int
    pid: int | None = None

    @property
    def state(self) -> State:
        """Whether it answers, runs without answering yet, is suspended, or does not run."""
        try:
            process = self.process
            status = process.status() if process else None
        except psutil.NoSuchProcess:
            status = None
        if status in (None, psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD):
            return "down"
        if status == psutil.STATUS_STOPPED:
            return "frozen"
        return "up" if answers(self.address) else "starting"

    @property
    def process(self) -> psutil.Process | None:
        """Its process while that exists. A later process with the same pid has another command."""
        if self.pid is None:
            return None
        try:
            process = psutil.Process(self.pid)
            command = process.cmdline()
            # A process has no command line at first, but it leads its session already.
            is_its_own = f"@{self._jvm_options}" in command if command else _leads_session(self.pid)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            return None
        return process if is_its_own else None

    def wait_for_status(self, stopped: bool, seconds: float) -> None:
        """Waits for the effect of a signal, which comes after the call that sends it."""
        until = time.monotonic() + seconds
        while (self.state == "frozen") != stopped and time.monotonic() < until:
            time.sleep(0.02)

    def started(
        self,
        seed: str,
        jvm_options: Sequence[str] = (),
        further: Mapping[str, object] | None = None,
    ) -> "Node":
        """Starts the node without waiting for it. Raises Busy when a port that it needs is taken.

        `further` settings of cassandra.yaml replace the lab's own.
        """
        for port in (CQL_PORT, _STORAGE_PORT):
            check_free(self.address, port)
        for name in ("data", "commitlog", "saved_caches", "hints", "cdc_raw", "log", "tmp"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        settings = {
            "address": self.address,
            "seed": seed,
            "data": str(self.folder),
            "storage_port": str(_STORAGE_PORT),
            "cql_port": str(CQL_PORT),
        }
        template = string.Template(_resource("cassandra.yaml"))
        written = _with_settings(template.substitute(settings), further or {})
        (self.folder / "cassandra.yaml").write_text(written)
        (self.folder / "logback.xml").write_text(_resource("logback.xml"))
        self._jvm_options.write_text(_resource("jvm.options"))
        self.log.unlink(missing_ok=True)
        command = [_jars.java(), f"@{self._jvm_options}", *self._options(), *jvm_options]
        jars = _jars.jars()
        (agent,) = jars.glob("jamm-*.jar")
        command += [f"-javaagent:{agent}", "-cp", f"{jars}/*"]
        command.append("org.apache.cassandra.service.CassandraDaemon")
        with (self.folder / "stdout").open("wb") as log:
            # The node outlives this process.
            started = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        # The handle is dropped: `process` asks the system, as any later command does.
        started.returncode = 0
        return replace(self, pid=started.pid)

    @property
    def _jvm_options(self) -> Path:
        return self.folder / "jvm.options"

    def _options(self) -> list[str]:
        folder, heap = self.folder, self.heap
        return [
            f"-Xms{heap}",
            f"-Xmx{heap}",
            "-XX:MaxDirectMemorySize=384m",
            f"-XX:HeapDumpPath={folder}",
            f"-XX:ErrorFile={folder}/hs_err.log",
            f"-Dcassandra.config=file://{folder}/cassandra.yaml",
            f"-Dcassandra.storagedir={folder}",
            f"-Dcassandra.logdir={folder}/log",
            f"-Dlogback.configurationFile=file://{folder}/logback.xml",
            f"-Djava.io.tmpdir={folder}/tmp",
            f"-Djna.tmpdir={folder}/tmp",
            "-Dcassandra-foreground=yes",
            # A new cluster on one machine has nothing to wait for and nothing to stream.
            "-Dcassandra.ring_delay_ms=2000",
            "-Dcassandra.skip_wait_for_gossip_to_settle=0",
            "-Dcassandra.auto_bootstrap=false",
            "-Dcassandra.consistent.rangemovement=false",
        ]

    def wait_until_up(self) -> None:
        """Waits until it answers. Raises Error, with its last error, when it ends first."""
        until = time.monotonic() + _READY_SECONDS
        while (state := self.state) != "up":
            if state == "down":
                raise Error(f"node {self.number} ended while it started: {self._last_error()}")
            if time.monotonic() > until:
                raise Error(
                    f"node {self.number} did not answer within {_READY_SECONDS:.0f} s; "
                    f"see {self.log}"
                )
            time.sleep(0.1)

    @property
    def log(self) -> Path:
        """Its log file."""
        return self.folder / "log" / "system.log"

    def _last_error(self) -> str:
        """The last error in its log, or the last error or line of its output."""
        for file in (self.log, self.folder / "stdout"):
            lines = file.read_text(errors="replace").splitlines() if file.exists() else []
            errors = [line for line in lines if re.search("ERROR|Exception|Error:", line)]
            if errors or (lines and file.name == "stdout"):
                return f"{(errors or lines)[-1].strip()} (see {file})"
        return f"see {self.folder}"


def _leads_session(pid: int) -> bool:
    """Whether a process leads a session; the system's own processes lead none."""
    try:
        return os.getsid(pid) == pid
    except OSError:
        return False


def _with_settings(document: str, further: Mapping[str, object]) -> str:
    """A cassandra.yaml with further settings, written as JSON, which is valid YAML."""
    own = (line for line in document.splitlines() if line.partition(":")[0] not in further)
    return "\n".join([*own, *(f"{name}: {json.dumps(value)}" for name, value in further.items())])


def answers(address: str) -> bool:
    """Whether something listens on a node's CQL port, which Cassandra opens last."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((address, CQL_PORT)) == 0


def _resource(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text()
