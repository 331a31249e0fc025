"""Signals in the middle of a write: no output has its name before it is whole."""

import signal
import subprocess
import sys
from pathlib import Path

import idmatch
import pyarrow as pa
import pytest
from chosen import one_of
from conftest import NOON

ROWS = 200_000
# Runs a command. Once a part of its output is on disk, it says so and waits, before the output gets
# its name.
_WAITS = """
import os, select, sys, time
from idmatch import _core
from idmatch._cli import run

def written():
    return sum(
        os.path.getsize(os.path.join(folder, name))
        for folder, _, names in os.walk(".")
        for name in names
        if ".idmatch-" in os.path.join(folder, name)
    )

def wait(stage, done, unit):
    if stage != "write":
        return
    while not written():
        time.sleep(0.01)
    print("writing", flush=True)
    # A read would not see a signal that comes just before it.
    while not select.select([sys.stdin], [], [], 0.02)[0]:
        pass

_core.report_to(wait)
run()
"""


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a table of some megabytes."""
    path = tmp_path_factory.mktemp("many") / "store"
    ids = pa.array([f"i{n}" for n in range(ROWS)])
    dates = pa.array([NOON] * len(ids), pa.timestamp("ms", "UTC"))
    with idmatch.open(path) as store:
        table = store.create_table("many")
        table.load(pa.table({"id": ids, "partner_id": ids, "seen_at": dates}))
    return path


def stopped(home: Path, command: list[str], by: signal.Signals) -> tuple[int, str]:
    """Exit code and stderr of a command that gets a signal while it writes."""
    with subprocess.Popen(
        [sys.executable, "-c", _WAITS, *command],
        cwd=home,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout
        assert process.stderr
        assert process.stdout.readline() == "writing\n"
        process.send_signal(by)
        return process.wait(), process.stderr.read()


@pytest.mark.parametrize("by", one_of([signal.SIGINT, signal.SIGTERM, signal.SIGKILL]))
@pytest.mark.parametrize(
    "output",
    [
        ["out.parquet"],
        ["out.csv"],
        ["out.csv.gz"],
        ["out.jsonl.zst"],
        ["out.arrow"],
        ["out", "--max-rows-per-file", "30k"],
        ["out", "--partition-by", "seen_at", "--format", "csv"],
    ],
)
def test_an_output_that_is_stopped_has_no_name(
    many: Path, tmp_path: Path, output: list[str], by: signal.Signals
) -> None:
    """SIGKILL leaves what was written under another name, which hinders nobody."""
    command = ["export", str(many), "many", "-o", *output]
    code, said = stopped(tmp_path, command, by)
    left = [path.name for path in tmp_path.iterdir()]
    if by != signal.SIGKILL:
        assert (code, said, left) == (128 + by, "idmatch: error: interrupted\n", [])
    else:
        [name] = left
        assert code == -signal.SIGKILL
        assert (name.startswith(".idmatch-"), name.endswith(".tmp")) == (True, True)
    again = [sys.executable, "-c", "from idmatch._cli import run; run()", *command]
    subprocess.run(again, cwd=tmp_path, check=True)
    assert {path.name for path in tmp_path.iterdir()} == {*left, output[0]}


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGKILL])
def test_what_would_be_overwritten_stays(many: Path, tmp_path: Path, by: signal.Signals) -> None:
    (tmp_path / "people.csv").write_text("id\ni1\ni2\n")
    for name in ("out.csv", "lost.csv"):
        (tmp_path / name).write_text("mine")
    outputs = ["-o", "out.csv", "--unmatched", "lost.csv", "--overwrite"]
    code, _ = stopped(tmp_path, ["match", str(many), "many", "people.csv", *outputs], by)
    assert code == (130 if by == signal.SIGINT else -signal.SIGKILL)
    assert [(tmp_path / name).read_text() for name in ("out.csv", "lost.csv")] == ["mine", "mine"]
