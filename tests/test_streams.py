"""`upsert -`: every row of a stream is stored or rejected, and acknowledged when it is durable."""

import csv
import errno
import io
import json
import signal
import subprocess
from collections.abc import Callable, Iterable
from itertools import accumulate, chain
from pathlib import Path
from typing import Any, Literal, cast

import idmatch
import pyarrow as pa
import pytest
from conftest import Cli
from deliveries import run_and_compare
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from idmatch import _operations
from idmatch._csv_options import Csv
from idmatch._rejects import RejectsTo
from idmatch._sources import ByteStream, Wanted
from idmatch._written import written

HEADER = b"id,partner_id,seen_at\n"
ROLES: dict[str, str | None] = {"id": None, "partner_id": None, "seen_at": None}


class Arriving(io.BytesIO):
    """A stream that arrives in pieces; `asked` gets what has arrived before each."""

    def __init__(
        self, pieces: Iterable[bytes], asked: Callable[[bytes], object] = lambda _: None
    ) -> None:
        super().__init__()
        self._pieces = iter(pieces)
        self._asked = asked

    def peek(self, _: int = 0) -> bytes:
        first = next(self._pieces, b"")
        self._pieces = chain([first], self._pieces)
        return first

    def read1(self, _: int | None = -1) -> bytes:
        self._asked(self.getvalue())
        piece = next(self._pieces, b"")
        self.write(piece)
        return piece


def read(data: bytes, size: int = 1 << 20) -> tuple[list[tuple[object, ...]], list[int], int]:
    """The rows of a stream that arrives in pieces, the malformed ones, and how many it counts."""
    return read_pieces(Arriving(data[at : at + size] for at in range(0, len(data), size)), [], [])


def read_pieces(
    arriving: Arriving, rows: list[tuple[object, ...]], malformed: list[int]
) -> tuple[list[tuple[object, ...]], list[int], int]:
    """The same; lists grow as soon as a row is given."""

    def on_malformed(_: str, row: int, __: str) -> bool:
        malformed.append(row)
        return True

    stream = ByteStream(arriving, "stream")  # type: ignore[arg-type]
    for chunk in stream.read(Wanted(ROLES, csv=Csv()), on_malformed):
        if chunk is not None:
            columns = chunk.read_all().to_pydict()
            rows += zip(*columns.values(), strict=True)
    return rows, malformed, stream.rows


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(
        st.sampled_from(
            [b"a", b"\xff", b",", b'"', b'""', b"\n", b"\r\n", b"\r", b" ", b"a,b,c\n", b"\x00"]
        ),
        max_size=60,
    ).map(b"".join),
    st.integers(1, 9),
)
def test_every_row_of_any_bytes_is_counted(body: bytes, size: int) -> None:
    data = HEADER + body
    rows, malformed, counted = read(data, size)
    # However it arrives, the same comes of it; and rows and rejects are all that is counted.
    assert (rows, malformed, counted) == read(data)
    assert len(rows) + len(malformed) == counted
    assert sorted(set(malformed)) == sorted(malformed)
    if b'"' not in body:
        # Without quotes each line is a row, of Python's splitting.
        lines = [line for line in body.splitlines() if line]
        assert counted == len(lines)
        assert len(rows) == sum(line.count(b",") == 2 for line in lines)


@settings(deadline=None)
@given(
    st.lists(
        st.lists(st.text('a",\n', max_size=5), min_size=3, max_size=3).filter(any), max_size=8
    ),
    st.integers(1, 9),
)
def test_quoted_values_are_as_csv_has_them(rows: list[list[str]], size: int) -> None:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_ALL).writerows(rows)
    got, malformed, _ = read(HEADER + text.getvalue().encode(), size)
    assert malformed == []
    assert [[(value or b"").decode() for value in row] for row in got] == rows  # type: ignore[attr-defined]


@settings(deadline=None)
@given(
    st.lists(
        st.lists(st.text('a",\n', max_size=5), min_size=3, max_size=3).filter(any), max_size=8
    ),
    st.integers(1, 9),
    st.sampled_from([csv.QUOTE_ALL, csv.QUOTE_MINIMAL]),
)
def test_a_record_comes_as_soon_as_it_ends(
    rows: list[list[str]], size: int, quoting: Literal[0, 1]
) -> None:
    """No whole record waits for the next one, or for another quote."""
    records = []
    for row in rows:
        text = io.StringIO()
        csv.writer(text, lineterminator="\n", quoting=quoting).writerow(row)
        records.append(text.getvalue().encode())
    pieces = [record[at : at + size] for record in records for at in range(0, len(record), size)]
    whole = list(accumulate(records, initial=HEADER))
    got: list[tuple[object, ...]] = []

    def asked(arrived: bytes) -> None:
        assert len(got) == max(0, sum(map(arrived.startswith, whole)) - 1)

    assert read_pieces(Arriving([HEADER, *pieces], asked), got, []) == (got, [], len(rows))


def test_rows_after_a_stray_quote_are_kept() -> None:
    row = b"id%d,p,2026-03-01\n"
    for stray in (b'5" wide,p,2026-03-01\n', b'"5,p,2026-03-01\n', b'a,b,"c\n'):
        data = HEADER + row % 1 + stray + b"".join(row % n for n in range(2, 50))
        rows, malformed, counted = read(data, 100)
        assert counted == 50
        ids = {value for value, _, _ in rows}
        assert {b"id%d" % n for n in range(1, 50)} <= ids
        assert malformed == ([] if stray.startswith(b"5") else [2])


def test_a_stray_quote_withholds_little() -> None:
    """Rows after it come once it has been open for a mebibyte, not at the end of the stream."""
    stray, lines = b'"a,p,2026-03-01\n', b"a,p,2026-03-01\n" * 1024
    most = len(HEADER + stray + lines) + (1 << 20)
    got: list[tuple[object, ...]] = []
    malformed: list[int] = []

    def asked(arrived: bytes) -> None:
        rows = (len(arrived) - len(HEADER + stray)) // len(lines) * 1024
        assert len(arrived) <= most or (malformed, len(got)) == ([1], rows)

    arriving = Arriving([HEADER, stray, *[lines] * 100], asked)
    assert read_pieces(arriving, got, malformed) == (got, [1], 1 + 100 * 1024)


class Acknowledged:
    """An `upsert - --ack` that runs."""

    def __init__(self, cli: Cli, *arguments: str) -> None:
        self.running = subprocess.Popen(
            cli.command("upsert", "store", "t", "-", "--ack", "--create", *arguments),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cli.home,
        )

    @property
    def stdin(self) -> io.BufferedWriter:
        return cast("io.BufferedWriter", self.running.stdin)

    def send(self, data: bytes) -> None:
        self.stdin.write(data)
        self.stdin.flush()

    def next(self) -> dict[str, int]:
        assert self.running.stdout
        found: dict[str, int] = json.loads(self.running.stdout.readline())
        return found

    def until(self, through: int) -> dict[str, int]:
        while (found := self.next())["through"] < through:
            pass
        return found


@pytest.mark.parametrize("format", ["csv", "json", "arrow"])
def test_what_is_acknowledged_outlives_a_kill(cli: Cli, format: str) -> None:
    rows: list[dict[str, Any]] = [
        {"id": f"id{n}", "partner_id": "" if n % 10 == 3 else f"p{n}", "seen_at": "2026-03-01"}
        for n in range(100)
    ]

    def sent(part: list[dict[str, Any]]) -> bytes:
        if format == "json":
            return "".join(json.dumps(row) + "\n" for row in part).encode()
        return "".join(",".join(row.values()) + "\n" for row in part).encode()

    writer = Acknowledged(cli)
    if format == "arrow":
        stream = pa.ipc.new_stream(writer.stdin, pa.Table.from_pylist(rows).schema)
        stream.write_table(pa.Table.from_pylist(rows[:40]))
        writer.stdin.flush()
    else:
        writer.send((HEADER if format == "csv" else b"") + sent(rows[:40]))
    first = writer.until(40)
    assert first == {"rows": 36, "through": 40}
    writer.running.send_signal(signal.SIGKILL)
    writer.running.communicate()
    # From the next row on, another process goes on.
    with idmatch.open(cli.home / "store") as store:
        table = store.table("t")
        assert [n for n in range(100) if table.lookup(f"id{n}")] == [
            n for n in range(40) if n % 10 != 3
        ]
    (rejects,) = (cli.home / "store.rejects").iterdir()
    assert [line.split(",")[1] for line in rejects.read_text().splitlines()[1:]] == [
        "4",
        "14",
        "24",
        "34",
    ]
    again = Acknowledged(cli)
    if format == "arrow":
        data = io.BytesIO()
        with pa.ipc.new_stream(data, pa.Table.from_pylist(rows).schema) as stream:
            stream.write_table(pa.Table.from_pylist(rows[first["through"] :]))
        again.send(data.getvalue())
    else:
        again.send((HEADER if format == "csv" else b"") + sent(rows[first["through"] :]))
    out, err = again.running.communicate()
    assert json.loads(out.splitlines()[-1]) == {"rows": 54, "through": 60}
    assert again.running.returncode == 3
    assert b"60 rows read, 6 rejected" in err
    with idmatch.open(cli.home / "store") as store:
        table = store.table("t")
        assert sum(bool(table.lookup(f"id{n}")) for n in range(100)) == 90


def test_rejected_rows_alone_are_acknowledged(cli: Cli) -> None:
    writer = Acknowledged(cli)
    writer.send(HEADER)
    writer.send(b"broken\n")
    assert writer.until(1) == {"rows": 0, "through": 1}
    writer.send(b'{"a"\nid,p,2026-03-01\n')
    assert writer.until(3) == {"rows": 1, "through": 3}
    writer.running.communicate()


def test_usage_of_ack(cli: Cli) -> None:
    for arguments in (["in.csv", "--ack"], ["-", "--ack", "--json"]):
        ran = cli("upsert", "store", "t", *arguments, stdin="")
        assert (ran.code, "--ack" in ran.err) == (2, True)
    assert not Path(cli.home / "store").exists()


def test_the_example_of_deliveries(tmp_path: Path) -> None:
    run_and_compare("./store", tmp_path)


def test_nothing_is_acknowledged_where_rejects_are_not_durable(
    store: idmatch.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr("os.fsync", refuse)
    acknowledged: list[tuple[int, int]] = []
    stream = ByteStream(io.BufferedReader(io.BytesIO(HEADER + b"a,x,2026-03-01\nbad\n")), "in")
    with pytest.raises(idmatch.IoError, match="Input/output error"):
        _operations.upsert_stream(
            store.create_table("t")._core,
            stream,
            (),
            False,
            RejectsTo(),
            written(None, None, None),
            lambda rows, through: acknowledged.append((rows, through)),
        )
    assert acknowledged == []
