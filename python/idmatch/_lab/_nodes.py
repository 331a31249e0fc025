"""One node: its files, its process, and whether it answers."""

import os
import re
import socket
import string
import time
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Literal

from .._errors import Busy, Error
from . import _jars
from ._processes import Process, has_ended, is_stopped, start

CQL_PORT = 9042
_STORAGE_PORT = 7000
_READY_SECONDS = 180.0

State = Literal["up", "starting", "frozen", "down"]


@dataclass(frozen=True)
class Node:
    """A node by number, and its process if it was started."""

    number: int
    address: str
    folder: Path
    heap: int
    process: Process | None = None

    @property
    def state(self) -> State:
        """Whether it answers, is on its way to that, was frozen, or does not run."""
        state = self.process.state() if self.process else None
        if has_ended(state):
            return "down"
        if is_stopped(state):
            return "frozen"
        return "up" if answers(self.address) else "starting"

    def started(self, seed: str) -> "Node":
        """The node, on its way up. Raises Busy where a port that it needs is taken."""
        for port in (CQL_PORT, _STORAGE_PORT):
            _check_free(self.address, port)
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
        (self.folder / "cassandra.yaml").write_text(template.substitute(settings))
        (self.folder / "logback.xml").write_text(_resource("logback.xml"))
        (self.folder / "jvm.options").write_text(_resource("jvm.options"))
        self.log.unlink(missing_ok=True)
        command = [_jars.java(), f"@{self.folder / 'jvm.options'}", *self._options()]
        jars = _jars.jars()
        (agent,) = jars.glob("jamm-*.jar")
        command += [f"-javaagent:{agent}", "-cp", f"{jars}/*"]
        command.append("org.apache.cassandra.service.CassandraDaemon")
        process = start(command, self.folder / "stdout", os.environ)
        return replace(self, process=process)

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
            # A new cluster on one machine: nothing to wait for, and nothing to stream.
            "-Dcassandra.ring_delay_ms=2000",
            "-Dcassandra.skip_wait_for_gossip_to_settle=0",
            "-Dcassandra.auto_bootstrap=false",
            "-Dcassandra.consistent.rangemovement=false",
        ]

    def wait_until_up(self) -> None:
        """Returns when it answers. Raises Error, with what its log says, when it ends before."""
        until = time.monotonic() + _READY_SECONDS
        while (state := self.state) != "up":
            if state == "down":
                raise Error(f"node {self.number} ended while it started: {self._last_words()}")
            if time.monotonic() > until:
                raise Error(
                    f"node {self.number} did not answer within {_READY_SECONDS:.0f} s; "
                    f"see {self.log}"
                )
            time.sleep(0.1)

    @property
    def log(self) -> Path:
        """Where it says what it does."""
        return self.folder / "log" / "system.log"

    def _last_words(self) -> str:
        """The last error of its log, or the end of what it printed."""
        for file in (self.log, self.folder / "stdout"):
            lines = file.read_text(errors="replace").splitlines() if file.exists() else []
            errors = [line for line in lines if re.search("ERROR|Exception|Error:", line)]
            if errors or (lines and file.name == "stdout"):
                return f"{(errors or lines)[-1].strip()} (see {file})"
        return f"see {self.folder}"


def answers(address: str) -> bool:
    """Whether something listens on a node's CQL port. Cassandra opens it last of all."""
    with socket.socket() as asking:
        asking.settimeout(1)
        return asking.connect_ex((address, CQL_PORT)) == 0


def _check_free(address: str, port: int) -> None:
    with socket.socket() as trying:
        # What was closed a moment ago does not count, as it does not for Cassandra.
        trying.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trying.bind((address, port))
        except OSError as error:
            raise Busy(
                f"cannot listen on {address}:{port} ({error.strerror}): another lab or Cassandra "
                "may be there; stop it, or name another network: --network 127.0.1"
            ) from error


def _resource(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text()
