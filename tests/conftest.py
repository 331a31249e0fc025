"""What the tests share: a store, rows, and the command line."""

import json
import logging
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

import hidden
import idmatch
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command_server import CommandServer
from idmatch import _core
from idmatch._times import Moment
from kept_log import Kept
from shared_node import address, node  # noqa: F401 - fixtures

collect_ignore = hidden.FILES if hidden.HIDDEN else ()

# A shell lets its background jobs ignore it, and so would every program that a test interrupts.
signal.signal(signal.SIGINT, signal.default_int_handler)

DAY = timedelta(days=1)
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def observations(*rows: tuple[str, str, datetime]) -> pa.Table:
    """Rows of (id, partner_id, seen_at) as an Arrow table."""
    ids, partner_ids, dates = zip(*rows, strict=True) if rows else ((), (), ())
    return pa.table(
        {
            "id": pa.array(ids, pa.string()),
            "partner_id": pa.array(partner_ids, pa.string()),
            "seen_at": pa.array(dates, pa.timestamp("ms", "UTC")),
        }
    )


SMALL = observations(
    ("a", "x", NOON),
    ("a", "y", NOON - 10 * DAY),
    ("a", "y", NOON - 20 * DAY),
    ("b", "x", NOON - 30 * DAY),
    ("c", "z", NOON - 400 * DAY),
)
"""Three ids with three partner IDs; the pair (a, y) was seen twice."""


class Window(TypedDict):
    """The ends of a window, as arguments of a question."""

    since: Moment | None
    until: Moment | None


def answer_schema(*sides: str) -> pa.Schema:
    """The schema of answers: identifiers of these sides and their date, never null."""
    types = [*((side, pa.string()) for side in sides), ("seen_at", pa.timestamp("ms", "UTC"))]
    return pa.schema([pa.field(name, type, nullable=False) for name, type in types])


def pairs(answers: pa.Table) -> list[tuple[object, object]]:
    """The rows of an answer: identifier and date."""
    side, seen_at = answers.columns
    return list(zip(side.to_pylist(), seen_at.to_pylist(), strict=True))


@pytest.fixture(autouse=True)
def _end_log() -> Iterator[None]:
    """Ends the log that a command in this process began: it prints to a stderr of the test."""
    yield
    logging.getLogger("idmatch").handlers[:] = [logging.NullHandler()]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[idmatch.Store]:
    """An empty store."""
    with idmatch.open(tmp_path / "store") as opened:
        yield opened


@pytest.fixture
def table(store: idmatch.Store) -> idmatch.Table:
    """A table that keeps the last date of each pair and holds SMALL."""
    made = store.create_table("small")
    made.load(SMALL)
    return made


def rejects_file(home: Path) -> Path:
    """The newest file of rejects of the store "store" in a directory."""
    return max((home / "store.rejects").iterdir(), key=lambda path: path.stat().st_mtime_ns)


class Ran(NamedTuple):
    """What a command did."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        """Its only line on stdout, as JSON."""
        (line,) = self.out.splitlines()
        return json.loads(line)

    def has_no_result(self) -> bool:
        """Whether stdout has nothing but an error."""
        return self.out == "" or list(self.json()) == ["error"]


class Cli:
    """The command `idmatch`, run as a process of its own in one directory."""

    program = "from idmatch._cli import run; run()"

    def __init__(self, home: Path) -> None:
        self.home = home

    def command(self, *arguments: object) -> list[str]:
        """What to run for these arguments."""
        return [sys.executable, "-c", self.program, *map(str, arguments)]

    def __call__(self, *arguments: object, stdin: str = "") -> Ran:
        words, timeout = [str(word) for word in arguments], 120
        if self.program is Cli.program and words[:1] != ["sample"]:
            server = CommandServer.of_this_process()
            done = server.run(words, self.home, stdin, timeout)
        else:
            done = subprocess.run(
                self.command(*words),
                input=stdin,
                capture_output=True,
                text=True,
                cwd=self.home,
                timeout=timeout,
            )
        return Ran(done.returncode, done.stdout, done.stderr)

    def on_terminal(self, *arguments: object) -> Ran:
        """Runs a command whose stderr is a terminal; `err` is all that it shows there."""
        ours, theirs = pty.openpty()
        running = subprocess.Popen(
            self.command(*arguments),
            stdout=subprocess.PIPE,
            stderr=theirs,
            text=True,
            cwd=self.home,
        )
        os.close(theirs)
        shown = b""
        # Linux ends a terminal that nobody writes to with an error.
        with suppress(OSError):
            while piece := os.read(ours, 10_000):
                shown += piece
        os.close(ours)
        out, _ = running.communicate(timeout=120)
        return Ran(running.returncode, out, shown.decode())


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    """The command line, in a directory of its own."""
    return Cli(tmp_path)


@pytest.fixture
def loaded(cli: Cli) -> Cli:
    """A command line in whose directory a store has the table "small"."""
    pq.write_table(SMALL, cli.home / "small.parquet")
    pq.write_table(pa.table({"id": ["a", "b", "nobody"]}), cli.home / "people.parquet")
    assert cli("load", "store", "small", "small.parquet").code == 0
    return cli


@pytest.fixture
def kept() -> Iterator[Kept]:
    """A handler of all that the library logs, at the lowest level."""
    logger, handler = logging.getLogger("idmatch"), Kept()
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(1)
    yield handler
    _core.flush_logs()
    logger.removeHandler(handler)
    logger.setLevel(level)
