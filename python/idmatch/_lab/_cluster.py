"""All nodes of a lab: starts, stops, kills and freezes them, from this process or a later one.

The folder of a lab holds its state. `lab.json` lists the nodes and their pids. Each node has a
folder with its data, settings and log.
"""

import ipaddress
import json
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import psutil

from idmatch._errors import Busy, Error, InvalidArgument

from ._nodes import CQL_PORT, Node

MOST_NODES: Final = 9
_HEAP_BYTES = 512 << 20
_STOP_SECONDS = 30.0

Tell = Callable[[str], object]
"""Takes a line about progress."""


class Lab:
    """A Cassandra cluster on loopback addresses of this machine, in a folder.

    Several processes may use one folder: each finds the nodes that another started. Only one
    process changes a lab at a time; a second one gets Busy.
    """

    def __init__(
        self,
        folder: Path,
        tell: Tell = lambda _: None,
        jvm_options: Sequence[str] = (),
        settings: Mapping[str, object] | None = None,
    ) -> None:
        """Nodes that this object starts also get `jvm_options` and cassandra.yaml `settings`."""
        self.folder = folder.absolute()
        self._tell = tell
        self._jvm_options = jvm_options
        self._settings = settings

    def up(self, nodes: int, heap: int | None = None, network: str = "127.0.0") -> list[Node]:
        """Starts nodes that are down, resumes frozen ones, and returns when all answer.

        An existing lab keeps its number of nodes and its network: other values raise
        InvalidArgument. So does another `heap` for a running node. Without `heap`, nodes keep
        their heap, which is 512 MiB at first. Raises Busy when a port is taken, and Error when
        Java or Maven is missing or a node does not start. Nodes that started keep running.
        """
        if not 1 <= nodes <= MOST_NODES:
            raise InvalidArgument(f"a lab has 1 to {MOST_NODES} nodes, not {nodes}")
        with self.locked():
            known = self._read() or self._planned(nodes, heap or _HEAP_BYTES, network)
            found = known[0].address.rpartition(".")[0]
            if len(known) != nodes or found != network:
                raise InvalidArgument(
                    f"the lab in {self.folder} has {len(known)} nodes at {found}.*; take it "
                    "down with --delete before it becomes another"
                )
            for number, node in enumerate(known):
                state = node.state
                if heap not in (None, node.heap):
                    if state != "down":
                        raise InvalidArgument(
                            f"node {node.number} runs with a heap of {node.heap:,} bytes; take "
                            "the lab down before its nodes get another"
                        )
                    node = replace(node, heap=heap)
                if state == "frozen":
                    self._thaw(node)
                elif state == "down":
                    self._tell(f"starting node {node.number} at {node.address}")
                    known[number] = self._started(node, known)
                    self._write(known)
                known[number].wait_until_up()
        return known

    def nodes(self) -> list[Node]:
        """Its nodes; an empty list for a lab that was never started."""
        return self._read() or []

    def down(self, delete: bool = False) -> list[Node]:
        """Stops all nodes. Their data stays for the next start unless `delete` is set."""
        with self.locked():
            known = self._read() or []
            for node in known:
                if process := node.process:
                    self._tell(f"stopping node {node.number}")
                    with suppress(psutil.NoSuchProcess):
                        process.terminate()
                        process.resume()
            running = [process for node in known if (process := node.process)]
            _, left = psutil.wait_procs(running, _STOP_SECONDS)
            for process in left:
                process.kill()
            psutil.wait_procs(left, _STOP_SECONDS)
            if delete:
                self._file.unlink(missing_ok=True)
                for node in known:
                    shutil.rmtree(node.folder, ignore_errors=True)
        return known

    def kill(self, number: int) -> Node:
        """Kills a node as a crash would, without a shutdown."""
        with self.locked():
            node = self._running(number)
            if process := node.process:
                process.kill()
                process.wait(_STOP_SECONDS)
        return node

    def freeze(self, number: int) -> Node:
        """Suspends a node: its connections stay open, and it answers nothing."""
        with self.locked():
            node = self._running(number)
            if process := node.process:
                process.suspend()
                node.wait_for_status(stopped=True, seconds=_STOP_SECONDS)
        return node

    def resume(self, number: int) -> Node:
        """Resumes a frozen node, or starts one that is down; returns when it answers."""
        with self.locked():
            known = self._read() or []
            node = self._named(known, number)
            if node.state == "frozen":
                self._thaw(node)
            elif node.state == "down":
                node = self._started(node, known)
                self._write([node if other.number == number else other for other in known])
            node.wait_until_up()
        return node

    def _started(self, node: Node, known: list[Node]) -> Node:
        return node.started(known[0].address, self._jvm_options, self._settings)

    def _thaw(self, node: Node) -> None:
        if process := node.process:
            process.resume()
            node.wait_for_status(stopped=False, seconds=_STOP_SECONDS)

    def _running(self, number: int) -> Node:
        node = self._named(self._read() or [], number)
        if node.state == "down":
            raise Error(f"node {number} does not run; start it with: idmatch lab resume {number}")
        return node

    def _named(self, known: list[Node], number: int) -> Node:
        for node in known:
            if node.number == number:
                return node
        there = f"it has {len(known)}, from 1 on" if known else "start one with: idmatch lab up"
        raise InvalidArgument(f"the lab in {self.folder} has no node {number}; {there}")

    def _planned(self, nodes: int, heap: int, network: str) -> list[Node]:
        if not _is_loopback(network):
            raise InvalidArgument(
                f"{network!r} is no network of a lab; write the first three numbers of a loopback "
                "address, such as 127.0.1"
            )
        numbers = range(1, nodes + 1)
        return [Node(n, f"{network}.{n}", self.folder / f"node{n}", heap) for n in numbers]

    @property
    def _file(self) -> Path:
        return self.folder / "lab.json"

    def _read(self) -> list[Node] | None:
        try:
            document = json.loads(self._file.read_bytes())
            return [self._node(entry) for entry in document["nodes"]]
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError) as error:
            raise Error(f"{self._file} is damaged ({error!r}); delete {self.folder}") from error

    def _node(self, entry: dict[str, Any]) -> Node:
        number, pid = int(entry["number"]), entry["pid"]
        folder = self.folder / f"node{number}"
        known = pid if pid is None else int(pid)
        return Node(number, str(entry["address"]), folder, int(entry["heap"]), known)

    def _write(self, known: list[Node]) -> None:
        entries = [
            {
                "number": node.number,
                "address": node.address,
                "heap": node.heap,
                "pid": node.pid,
            }
            for node in known
        ]
        scratch = self._file.with_suffix(".new")
        scratch.write_text(json.dumps({"nodes": entries}, indent=1))
        scratch.replace(self._file)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keeps other commands from changing the lab. Raises Busy where another one does."""
        import fcntl

        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "lock").open("wb") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise Busy(
                    f"another command changes the lab in {self.folder}; wait for it"
                ) from error
            yield


def contact_points(nodes: list[Node]) -> str:
    """The contact points of the nodes: `address:port`, separated by commas."""
    return ",".join(f"{node.address}:{CQL_PORT}" for node in nodes)


def _is_loopback(network: str) -> bool:
    try:
        return re.fullmatch(r"\d+\.\d+\.\d+", network) is not None and (
            ipaddress.ip_address(f"{network}.1").is_loopback
        )
    except ValueError:
        return False
