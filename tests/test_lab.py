"""The lab: a real Cassandra node, started, harmed and stopped from the command line."""

import os
import shutil
import signal
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import idmatch
import pytest
from conftest import Cli, Ran

NETWORK = "127.73.19"
"""Of the tests alone, so that a lab of the user can run beside them."""
ADDRESS = f"{NETWORK}.1"
CQL_PORT = 9042
TIMEOUT_SECONDS = 120


class LabCli:
    """`idmatch lab` in a directory of its own."""

    def __init__(self, cli: Cli) -> None:
        self._cli = cli
        self.folder = cli.home / "lab"

    def __call__(self, action: str, *arguments: object) -> Ran:
        return self._cli("lab", action, *arguments, "--dir", self.folder)

    def node(self, action: str = "status", *arguments: object) -> dict[str, Any]:
        """What is shown of its only node after an action."""
        ran = self(action, *arguments, "--json")
        assert ran.code == 0, ran.err
        (node,) = ran.json()["nodes"]
        return dict(node)


@pytest.fixture
def lab(cli: Cli) -> Iterator[LabCli]:
    """A lab that is gone when the test ends."""
    made = LabCli(cli)
    yield made
    assert made("down", "--delete").code == 0


def asks_for_options(address: str) -> int | None:
    """The opcode that answers the first question of the CQL protocol; None for no answer."""
    with socket.create_connection((address, CQL_PORT), timeout=10) as asking:
        asking.settimeout(3)
        asking.sendall(struct.pack(">BBhBi", 4, 0, 0, 5, 0))
        try:
            return asking.recv(9)[4]
        except TimeoutError:
            return None


SUPPORTED = 6


def runs(pid: int) -> bool:
    """Whether a process does; one that has ended may wait for its parent to take note."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.slow
def test_a_node_is_started_harmed_and_stopped(lab: LabCli) -> None:
    assert lab("status").out.startswith("no lab in")
    started = lab.node("up", "--network", NETWORK)
    assert (started["node"], started["address"], started["state"]) == (1, ADDRESS, "up")
    assert started["memory"] > 100e6
    assert asks_for_options(ADDRESS) == SUPPORTED
    assert "Startup complete" in Path(started["log"]).read_text()
    # Nothing is done twice.
    assert lab.node("up", "--network", NETWORK)["pid"] == started["pid"]

    assert lab.node("freeze", 1)["state"] == "frozen"
    assert asks_for_options(ADDRESS) is None
    assert lab.node("resume", 1) | {"memory": 0} == started | {"memory": 0}
    assert asks_for_options(ADDRESS) == SUPPORTED

    killed = lab.node("kill", 1)
    assert (killed["state"], killed["pid"], killed["memory"]) == ("down", None, 0)
    assert not runs(started["pid"])
    assert "does not run" in lab("freeze", 1).err
    again = lab.node("resume", 1)
    assert again["state"] == "up"
    assert again["pid"] != started["pid"]

    wrong = lab("up", "--network", NETWORK, "--nodes", 3)
    assert wrong.code == 2
    assert "has 1 nodes" in wrong.err
    assert lab("kill", 7).code == 2
    larger = lab("up", "--network", NETWORK, "--heap", "600Mi")
    assert larger.code == 2
    assert "runs with a heap of 536,870,912 bytes" in larger.err

    # A frozen node can be stopped too, and its data stays.
    lab.node("freeze", 1)
    assert lab.node("down")["state"] == "down"
    assert not runs(again["pid"])
    assert (lab.folder / "node1" / "data").is_dir()
    assert lab("down", "--delete").out.startswith("no lab in")
    assert not (lab.folder / "node1").exists()


def interrupted(call: Callable[[], object]) -> None:
    """Makes a call, and presses Ctrl-C a while after it has begun."""
    interrupt = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    interrupt.start()
    call()
    interrupt.join()


@pytest.mark.slow
def test_calls_to_a_frozen_node_neither_stop_python_nor_keep_ctrl_c(lab: LabCli) -> None:
    lab.node("up", "--network", NETWORK)
    asking = threading.Event()
    # Cached options are stale at once. The node has all of `timeout` to be resumed.
    address = f"cql://{ADDRESS}/frozen?replication=1&metadata_ttl=10ms&timeout={TIMEOUT_SECONDS}s"
    with idmatch.open(address) as store, ThreadPoolExecutor() as threads:
        table = store.create_table("t", retention="13mo")
        lab.node("freeze", 1)

        def ask() -> tuple[str | None, str]:
            asking.set()
            return table.retention, repr(table)

        answer = threads.submit(ask)
        assert asking.wait(60)
        # Python runs, or nobody resumes the node before the question fails.
        lab.node("resume", 1)
        assert answer.result() == ("13mo", "<idmatch.Table 't' keep='last' retention='13mo'>")

        snapshot = store.snapshot()
        lab.node("freeze", 1)
        calls: list[Callable[[], object]] = [
            lambda: table.lookup("a"),
            lambda: table.latest_partner_id("a"),
            lambda: table.last_seen("a", "p"),
            lambda: snapshot.table("t"),
            lambda: table.keep,
        ]
        for call in calls:
            began = time.monotonic()
            with pytest.raises(KeyboardInterrupt):
                interrupted(call)
            assert time.monotonic() - began < TIMEOUT_SECONDS / 2
        lab.node("resume", 1)
        assert table.lookup("a") == []


def test_a_port_that_is_taken(lab: LabCli) -> None:
    with socket.socket() as other:
        other.bind((ADDRESS, CQL_PORT))
        other.listen()
        ran = lab("up", "--network", NETWORK)
    assert ran.code == 75
    assert f"cannot listen on {ADDRESS}:{CQL_PORT}" in ran.err
    assert "--network" in ran.err
    assert lab("status").out.startswith("no lab in")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--network", "10.0.0"], "no network of a lab"),
        (["--network", "127.0.0.1"], "no network of a lab"),
        (["--nodes", "0"], "1 to 9 nodes"),
        (["--heap", "much"], "is not a size"),
    ],
)
def test_wrong_usage(lab: LabCli, arguments: list[str], reason: str) -> None:
    ran = lab("up", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert reason in ran.err


@pytest.mark.parametrize(
    ("programs", "reason"),
    [
        ([], "needs Java"),
        (["java"], "no mvn in PATH"),
    ],
)
def test_what_is_missing_is_named(
    lab: LabCli,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    programs: list[str],
    reason: str,
) -> None:
    path = tmp_path / "bin"
    path.mkdir()
    for program in programs:
        found = shutil.which(program)
        assert found, f"the tests of the lab need {program}"
        (path / program).symlink_to(os.path.realpath(found))
    monkeypatch.setenv("PATH", str(path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    ran = lab("up", "--network", NETWORK)
    assert ran.code == 1
    assert reason in ran.err
    assert "install" in ran.err


def test_another_java_is_named(
    lab: LabCli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "bin" / "java"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho 'openjdk version \"21.0.2\" 2024-01-16' >&2\n")
    program.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    ran = lab("up", "--network", NETWORK)
    assert ran.code == 1
    assert "runs on Java 11 or 17" in ran.err
    assert "is 21" in ran.err


def test_a_missing_program_is_told_before_anything_starts(cli: Cli, lab: LabCli) -> None:
    cli.program = f"import sys; sys.modules['pyspark'] = None; {cli.program}"
    ran = lab("up", "--with", "hdfs,spark", "--network", NETWORK)
    assert ran.code == 1
    assert "install idmatch with its extra 'spark'" in ran.err
    assert "starting" not in ran.err
    assert lab("status").out.startswith("no lab in")
