"""A writer that waits for another one."""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import idmatch
import pytest
from conftest import SMALL, Cli

WRITER = """
import sys, idmatch
with idmatch.open(sys.argv[1]) as store:
    table = store.create_table("small")
    table.upsert_one("first", "x", "2026-03-01")
    print("writes", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that writes the store until its input ends."""
    running = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path / "store")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert running.stdout
    assert running.stdout.readline() == "writes\n"
    yield running
    running.kill()
    running.wait()


def end(running: subprocess.Popen[str]) -> None:
    """Ends the writer."""
    assert running.stdin
    running.stdin.close()
    running.wait()


def test_a_command_waits(cli: Cli, writer: subprocess.Popen[str]) -> None:
    one = ["--id", "second", "--partner-id", "x"]
    busy = cli("upsert", "store", "small", *one, "--wait", "100ms")
    assert (busy.code, f"process {writer.pid}" in busy.err) == (75, True), busy.err
    command = cli.command("upsert", "store", "small", *one, "--wait", "2m", "-v")
    waiting = subprocess.Popen(command, cwd=cli.home, stderr=subprocess.PIPE, text=True)
    assert waiting.stderr
    assert any("waiting for it" in line for line in waiting.stderr)
    # It waits for longer than one that is not told to.
    assert cli("upsert", "store", "small", *one).code == 75
    assert waiting.poll() is None
    end(writer)
    waiting.communicate()
    assert waiting.returncode == 0
    assert cli("lookup", "store", "small", "--id", "second", "--json").json()["matches"]


def test_busy_says_who_writes(tmp_path: Path, writer: subprocess.Popen[str]) -> None:
    _, note = (tmp_path / "store" / "LOCK").read_text().split("\n", 1)
    noted = json.loads(note)
    with (
        idmatch.open(tmp_path / "store") as store,
        pytest.raises(idmatch.Busy, match=f"process {writer.pid}") as raised,
    ):
        store.table("small").upsert_one("second", "x")
    busy = raised.value
    assert (busy.pid, busy.program) == (writer.pid, noted["program"])
    assert busy.program
    assert busy.since == datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=noted["since"])


@pytest.mark.parametrize("call", ["upsert", "upsert_one", "load", "erase", "create", "commit"])
def test_a_call_waits_and_others_read(
    tmp_path: Path, cli: Cli, writer: subprocess.Popen[str], call: str
) -> None:
    with idmatch.open(tmp_path / "store", wait=timedelta(minutes=2)) as store:
        table = store.table("small")
        begun = threading.Event()
        failed: list[BaseException] = []

        def work() -> None:
            begun.set()
            try:
                match call:
                    case "upsert":
                        table.upsert(SMALL)
                    case "upsert_one":
                        table.upsert_one("second", "x")
                    case "load":
                        table.load(SMALL)
                    case "erase":
                        table.erase(id="first")
                    case "create":
                        store.create_table("another")
                    case "commit":
                        with table.begin() as session:
                            session.add(SMALL)
            except BaseException as error:  # noqa: BLE001
                failed.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        begun.wait()
        # It waits for longer than one that is not told to. A reader does not wait with it.
        one = ["--id", "third", "--partner-id", "x"]
        brief = subprocess.Popen(cli.command("upsert", "store", "small", *one), cwd=cli.home)
        while brief.poll() is None:
            store.refresh()
            assert table.lookup("first")
        assert brief.returncode == 75
        assert thread.is_alive()
        end(writer)
        thread.join()
        assert failed == []


@pytest.mark.parametrize("wait", ["soon", "-1s", "2d", "25h", timedelta(days=2), timedelta(-1)])
def test_no_time_to_wait(tmp_path: Path, wait: str | timedelta) -> None:
    with pytest.raises(idmatch.InvalidArgument, match="30s"):
        idmatch.open(tmp_path / "store", wait=wait)
