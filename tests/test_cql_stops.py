"""What a command says that is interrupted while it writes to servers."""

import signal
import subprocess
import time
from pathlib import Path

import idmatch
from conftest import Cli

ROWS = 30_000


def test_an_interrupted_load_says_what_is_unknown(cli: Cli, address: str, tmp_path: Path) -> None:
    """It exits with 130; what was sent stays, and a repeat makes the load whole."""
    rows = tmp_path / "rows.csv"
    lines = (f"i{row},p{row},2026-03-01" for row in range(ROWS))
    rows.write_text("\n".join(["id,partner_id,seen_at", *lines]) + "\n")
    with idmatch.open(address) as store:
        table = store.create_table("t", expected_rows=ROWS)
        slow = f"{address}&max_requests_per_second=20"
        load = cli.command("load", slow, "t", rows)
        running = subprocess.Popen(load, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
        # Which rows are sent first is up to a secret hash.
        some = [f"i{row}" for row in range(0, ROWS, 100)]
        while not any(table.lookup_many(some)) and running.poll() is None:
            time.sleep(0.05)
        running.send_signal(signal.SIGINT)
        _, said = running.communicate(timeout=120)
        assert running.returncode == 130, said
        assert f"interrupted: {ROWS} rows may be written or not: what was sent stays" in said
        assert "repeat it, which is always safe" in said
        assert table.load(rows).rows == ROWS
        assert table.stats().rows == ROWS
        assert table.verify() == []
