"""Commands that are interrupted while they read or write servers, and what they leave."""

import _thread
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import idmatch
import pytest
from conftest import NOON, Cli, observations
from shared_node import OPTIONS

ROWS = 30_000


@pytest.mark.parametrize("command", ["load", "copy"])
def test_an_interrupted_write_says_what_is_unknown(
    cli: Cli, address: str, tmp_path: Path, command: str
) -> None:
    """It exits with 130; what was sent stays, and a repeat makes the load whole."""
    rows = tmp_path / "rows.csv"
    lines = (f"i{row},p{row},2026-03-01" for row in range(ROWS))
    rows.write_text("\n".join(["id,partner_id,seen_at", *lines]) + "\n")
    with idmatch.open(address) as store:
        table = store.create_table("t", expected_rows=ROWS)
        slow = f"{address}&max_requests_per_second=20"
        load = cli.command("load", slow, "t", rows)
        if command == "copy":
            with idmatch.open(tmp_path / "source") as source:
                source.create_table("t").load(rows)
            load = cli.command("copy", "source", slow, "t")
        running = subprocess.Popen(load, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
        # Which rows are sent first is up to a secret hash.
        some = [f"i{row}" for row in range(0, ROWS, 100)]
        while not any(table.lookup_many(some)) and running.poll() is None:
            time.sleep(0.05)
        running.send_signal(signal.SIGINT)
        _, said = running.communicate(timeout=120)
        assert running.returncode == 130, said
        assert f"interrupted: {ROWS} rows may be written or not: what was sent stays" in said
        assert said.count("repeat it, which is always safe") == 1
        assert table.load(rows).rows == ROWS
        assert table.stats().rows == ROWS
        assert table.verify() == []


def test_a_short_upsert_is_interrupted_and_says_what_is_unknown(address: str) -> None:
    """Its rows take a minute to send; Ctrl-C comes when some are there."""
    ids = [f"i{n}" for n in range(100)]
    rows = observations(*((id, id, NOON) for id in ids))
    with idmatch.open(address) as store:
        table = store.create_table("t")

        def interrupt() -> None:
            while not any(table.lookup_many(ids)):
                time.sleep(0.05)
            _thread.interrupt_main()

        waiting = threading.Thread(target=interrupt)
        with idmatch.open(f"{address}&max_requests_per_second=3") as slow:
            waiting.start()
            with pytest.raises(KeyboardInterrupt) as interrupted:
                slow.table("t").upsert(rows)
        waiting.join()
        assert any("may be written or not" in note for note in interrupted.value.__notes__)
        table.upsert(rows)
        assert table.stats(count=True).pairs == 100
        assert table.verify() == []


# Runs a command, and says so once it has read something of a table.
_SAYS = """
from idmatch import _core
from idmatch._cli import run

def say(stage, done, unit):
    if done:
        print("reads", flush=True)

_core.report_to(say)
run()
"""


@pytest.fixture(scope="module")
def many(node: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """The slowed address of a store with a table, and a file with its ids."""
    rows = tmp_path_factory.mktemp("many") / "rows.csv"
    lines = (f"i{row},p{row},2026-03-01" for row in range(ROWS))
    rows.write_text("\n".join(["id,partner_id,seen_at", *lines]) + "\n")
    address = f"cql://{node}/stopped_reads?{OPTIONS}"
    with idmatch.open(address) as store:
        store.create_table("t", expected_rows=ROWS).load(rows)
    return f"{address}&max_requests_per_second=4", rows


@pytest.mark.parametrize(
    "command",
    [
        ["export", "ADDRESS", "t", "-o", "out.parquet"],
        ["match", "ADDRESS", "t", "ROWS", "-o", "out.csv", "--unmatched", "lost.csv"],
        *(
            pytest.param(command, marks=pytest.mark.slow)
            for command in (
                ["copy", "ADDRESS", "new-store", "t"],
                ["match", "ADDRESS", "t", "ROWS", "--then", "t,by=partner-id", "-o", "out.csv"],
                ["verify", "ADDRESS", "t"],
            )
        ),
    ],
)
def test_what_reads_servers_is_interrupted(
    command: list[str], many: tuple[str, Path], tmp_path: Path
) -> None:
    """It exits with 130 while most of the table is unread, and leaves no output."""
    address, rows = many
    words = [{"ADDRESS": address, "ROWS": str(rows)}.get(word, word) for word in command]
    with subprocess.Popen(
        [sys.executable, "-c", _SAYS, *words],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        assert running.stdout
        assert running.stdout.readline() == "reads\n"
        running.send_signal(signal.SIGINT)
        _, said = running.communicate(timeout=120)
    stays = ": what was copied stays; copy again, which is always safe"
    note = stays if command[0] == "copy" else ""
    assert (running.returncode, said) == (130, f"idmatch: error: interrupted{note}\n")
    assert not [path.name for path in tmp_path.iterdir() if path.suffix != ""]
