"""Results in an object store: whole or not at all, whatever the service and the user do."""

import gzip
import io
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import idmatch
import polars as pl
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest
from chosen import one_of
from conftest import NOON, SMALL, Cli
from s3 import BUCKET, KEY, S3, SECRET, Request

pytest_plugins = ["s3_fixtures"]

FORMATS = ("parquet", "csv", "csv.gz", "csv.zst", "jsonl", "jsonl.gz", "jsonl.zst", "arrow")
MANY = 100_000
WIDE = "w" * 1000


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a store, whose table "many" answers to each row of people.parquet."""
    home = tmp_path_factory.mktemp("many")
    ids = pa.array([f"i{number}" for number in range(MANY)])
    dates = pa.array([NOON] * MANY, pa.timestamp("ms", "UTC"))
    with idmatch.open(home / "store") as store:
        many = pa.table({"id": ids, "partner_id": ids, "seen_at": dates})
        store.create_table("many").load(many)
    # The result is large, and the file is not.
    wide = pa.DictionaryArray.from_arrays(pa.array([0] * MANY, pa.int8()), [WIDE])
    pq.write_table(pa.table({"id": ids, "wide": wide.cast(pa.string())}), home / "people.parquet")
    return home


def url(name: str) -> str:
    return f"s3://{BUCKET}/{name}"


def wide_rows(home: Path, store: idmatch.Store) -> idmatch.MatchResult:
    """A result of about 100 MB as CSV, which goes in seven parts."""
    return store.table("many").match(home / "people.parquet", column="id", carry=["wide"])


def rows_of(data: bytes, format: str) -> Counter[tuple[str, str]]:
    """The identifiers of a file of SMALL."""
    kind, _, packed = format.partition(".")
    if packed == "gz":
        data = gzip.decompress(data)
    if packed == "zst":
        data = pa.input_stream(io.BytesIO(data), compression="zstd").read()
    match kind:
        case "parquet":
            frame = pl.from_arrow(pq.read_table(io.BytesIO(data)))
        case "arrow":
            frame = pl.from_arrow(pa.ipc.open_file(io.BytesIO(data)).read_all())
        case "csv":
            frame = pl.read_csv(io.BytesIO(data))
        case _:
            frame = pl.read_ndjson(io.BytesIO(data))
    assert isinstance(frame, pl.DataFrame)
    return Counter(zip(frame["id"], frame["partner_id"], strict=True))


@pytest.mark.parametrize("format", FORMATS)
def test_each_format_is_written(s3: S3, table: idmatch.Table, tmp_path: Path, format: str) -> None:
    name = f"a b/ü=1/rows.{format}"
    table.scan().write(url(name))
    table.scan().write(tmp_path / f"rows.{format}")
    expected = Counter({("a", "x"): 1, ("a", "y"): 1, ("b", "x"): 1, ("c", "z"): 1})
    assert rows_of(s3.get(name), format) == expected
    assert rows_of((tmp_path / f"rows.{format}").read_bytes(), format) == expected
    assert (s3.keys(), s3.uploads()) == ([name], [])


def test_what_was_written_is_read_by_its_address(s3: S3, table: idmatch.Table) -> None:
    table.scan().write_parquet(url("rows"), compression="zstd")
    assert table.match(url("rows"), column="id").matched == 4
    table.match(SMALL, column="id", unmatched=True).unmatched().write(url("lost.csv"))
    assert s3.get("lost.csv") == b"id,reason\n"


def test_commands_write_both_outputs(s3: S3, loaded: Cli) -> None:
    match = ["match", "store", "small", "people.parquet"]
    outputs = ["-o", url("out.csv"), "--unmatched", url("lost.csv")]
    assert loaded(*match, *outputs).code == 0
    assert rows_of(s3.get("out.csv"), "csv") == Counter(
        {("a", "x"): 1, ("a", "y"): 1, ("b", "x"): 1}
    )
    assert s3.get("lost.csv").startswith(b"id,reason\nnobody,")
    assert loaded("export", "store", "small", "-o", url("all.jsonl.gz")).code == 0
    assert rows_of(s3.get("all.jsonl.gz"), "jsonl.gz").total() == 4


def test_large_objects_go_in_parts(s3: S3, home: Path) -> None:
    with idmatch.open(home / "store", read_only=True) as store:
        wide_rows(home, store).write(url("wide.parquet"))
        result = wide_rows(home, store)
        result.write(url("wide.csv"))
    assert len({one.path for one in s3.proxy.seen if one.is_part}) >= 7
    got = pl.read_csv(io.BytesIO(s3.get("wide.csv")))
    assert got.height == MANY
    assert set(got["id"]) == {f"i{number}" for number in range(MANY)}
    assert (got["id"] == got["partner_id"]).all()
    assert (got["wide"] == WIDE).all()
    assert pq.read_table(io.BytesIO(s3.get("wide.parquet"))).num_rows == MANY
    assert s3.uploads() == []


def test_what_exists_stays(s3: S3, loaded: Cli) -> None:
    s3.put("out.csv", b"mine")
    words = ["match", "store", "small", "people.parquet", "-o", url("out.csv")]
    ran = loaded(*words)
    assert (ran.code, "exists" in ran.err, "--overwrite" in ran.err) == (2, True, True)
    assert s3.get("out.csv") == b"mine"
    assert loaded(*words, "--overwrite").code == 0
    assert rows_of(s3.get("out.csv"), "csv").total() == 3


def test_an_input_is_no_output(s3: S3, loaded: Cli) -> None:
    before = (loaded.home / "people.parquet").read_bytes()
    s3.put("people.parquet", before)
    for output in (url("people.parquet"), f"S3A://{BUCKET}/%70eople.parquet"):
        ran = loaded("match", "store", "small", url("people.parquet"), "-o", output, "--overwrite")
        assert (ran.code, "input" in ran.err) == (2, True), ran.err
    assert s3.get("people.parquet") == before


def test_an_object_that_appears_meanwhile_stays(s3: S3, table: idmatch.Table, home: Path) -> None:
    def small(request: Request) -> None:
        if request.method == "PUT":
            s3.put("small.csv", b"theirs")

    s3.proxy.fault = small
    with pytest.raises(idmatch.InvalidArgument, match="exists"):
        table.scan().write(url("small.csv"))

    def large(request: Request) -> None:
        if request.is_part:
            s3.put("large.csv", b"theirs")

    s3.proxy.fault = large
    with (
        idmatch.open(home / "store", read_only=True) as store,
        pytest.raises(idmatch.InvalidArgument, match="exists"),
    ):
        wide_rows(home, store).write(url("large.csv"))
    assert (s3.get("small.csv"), s3.get("large.csv"), s3.uploads()) == (b"theirs", b"theirs", [])


@pytest.mark.parametrize("fault", one_of(["slow down", "cut", "lost answer"]))
def test_requests_are_repeated(s3: S3, home: Path, fault: str) -> None:
    seen: set[Request] = set()
    lock = threading.Lock()

    def first_fails(request: Request) -> str | None:
        # The answer to the completion tells of itself alone.
        is_last = request.method == "POST" and "uploadId=" in request.path
        with lock:
            is_first = request not in seen
            seen.add(request)
        return fault if is_first and not (is_last and fault == "lost answer") else None

    s3.proxy.fault = first_fails
    with idmatch.open(home / "store", read_only=True) as store:
        wide_rows(home, store).write(url("wide.csv"), overwrite=True)
        nobody = pa.table({"id": ["nobody"]})
        store.table("many").match(nobody).write(url("few.csv"))
    assert s3.get("few.csv") == b"id,partner_id,seen_at\n"
    assert pl.read_csv(io.BytesIO(s3.get("wide.csv")))["wide"].str.len_bytes().sum() == MANY * 1000
    # An upload whose first answer was lost is begun twice.
    assert s3.uploads() == (["wide.csv"] if fault == "lost answer" else [])


def test_a_refused_part_ends_the_match(s3: S3, home: Path) -> None:
    s3.proxy.fault = lambda request: "denied" if "partNumber=3&" in request.path else None
    with (
        idmatch.open(home / "store", read_only=True) as store,
        pytest.raises(idmatch.IoError, match=r"wide\.csv: access is denied") as raised,
    ):
        wide_rows(home, store).write(url("wide.csv"))
    assert not {KEY, SECRET, "pipe"}.intersection(str(raised.value).split())
    assert (s3.keys(), s3.uploads()) == ([], [])


def test_rows_that_cannot_be_read_leave_nothing(s3: S3, tmp_path: Path) -> None:
    with idmatch.open(tmp_path / "store") as store:
        ids = pa.array([f"i{number}" for number in range(1000)])
        dates = pa.array([NOON] * 1000, pa.timestamp("ms", "UTC"))
        rows = pa.table({"id": ids, "partner_id": ids, "seen_at": dates})
        store.create_table("t").load(rows)
    for segment in (tmp_path / "store" / "segments").glob("*.seg"):
        data = bytearray(segment.read_bytes())
        data[len(data) // 2] ^= 255
        segment.write_bytes(data)
    with (
        idmatch.open(tmp_path / "store", read_only=True) as store,
        pytest.raises(idmatch.Corrupt),
    ):
        store.table("t").scan().write(url("rows.csv"))
    assert (s3.keys(), s3.uploads()) == ([], [])


def pipes(process: subprocess.Popen[bytes]) -> int:
    """How many ends of pipes a process has open."""
    links = Path(f"/proc/{process.pid}/fd").iterdir()
    return sum(os.path.islink(link) and os.readlink(link).startswith("pipe:") for link in links)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_signal_leaves_no_object(s3: S3, home: Path, number: signal.Signals) -> None:
    held, release, gone = threading.Event(), threading.Event(), threading.Event()

    def hold(request: Request) -> str | None:
        if "partNumber=4&" in request.path:
            held.set()
        if "partNumber=1&" in request.path:
            release.wait(60)
        elif request.is_part:
            # Whoever sends it gives it up.
            gone.wait(60)
            return "cut"
        elif request.method == "DELETE":
            # An upload that is aborted while the server takes a part may stay.
            while not any(one.is_part for one in s3.proxy.answered):
                time.sleep(0.01)
        return None

    s3.proxy.fault = hold
    words = ["match", "store", "many", "people.parquet", "--column", "id", "--carry", "wide"]
    command = Cli(home).command(*words, "-o", url("wide.csv"))
    with subprocess.Popen(command, cwd=home, stderr=subprocess.PIPE) as process:
        try:
            assert held.wait(60)
            before = pipes(process)
            process.send_signal(number)
            if number is signal.SIGINT:
                # Both ends to write are closed: nothing more is sent.
                while pipes(process) > before - 2:
                    time.sleep(0.01)
            release.set()
            assert process.wait(60) == (130 if number is signal.SIGINT else -signal.SIGKILL)
        finally:
            release.set()
            process.kill()
            gone.set()
    assert s3.keys() == []
    if number is signal.SIGINT:
        assert s3.uploads() == []


def test_errors_say_what_to_do_and_no_secret(
    s3: S3, loaded: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    def error(output: str) -> str:
        ran = loaded("export", "store", "small", "-o", output)
        assert ran.code in (1, 2), ran.err
        assert not any(secret in ran.err + ran.out for secret in (SECRET, KEY)), ran.err
        return ran.err

    missing = error("s3://nowhere/out.csv")
    assert "cannot write s3://nowhere/out.csv: there is no such bucket" in missing
    assert "names no object" in error("s3://bucket//out.csv")
    assert "has no user and no options" in error(f"s3://{KEY}:{SECRET}@bucket/out.csv")
    assert "has no user and no options" in error(f"s3://bucket/out.csv?secret_key={SECRET}&x=.csv")
    assert "Unrecognized filesystem" in error("ftp://h/out.csv")
    s3.proxy.fault = lambda _: "denied"
    assert "access is denied (403 SignatureDoesNotMatch)" in error(url("out.csv"))
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    assert "a setting in the environment is missing" in error(url("out.csv"))
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", s3.proxy.url)
    assert "no credentials" in error(url("out.csv"))
    assert s3.keys() == []


def test_a_folder_ends_with_its_mark(s3: S3, table: idmatch.Table) -> None:
    table.scan().write(url("days"), partition_by="partner_id", format="csv")
    names = [f"days/partner_id={value}/part-00001.csv" for value in "xyz"]
    assert s3.keys() == ["days/_SUCCESS", *names]
    assert [one.path for one in s3.proxy.seen if one.method == "PUT"][-1].endswith("/_SUCCESS")
    with pytest.raises(idmatch.InvalidArgument, match="exists"):
        table.scan().write(url("days"), max_rows_per_file=1)
    s3.proxy.fault = lambda request: "denied" if "part-00003" in request.path else None
    with pytest.raises(idmatch.IoError, match="denied"):
        table.scan().write(url("few"), max_rows_per_file=1)
    assert s3.keys() == ["days/_SUCCESS", *names]


_PEAK = """
import resource, sys
import idmatch
with idmatch.open("store", read_only=True) as store:
    carry = [f"wide as w{number}" for number in range(3)]
    rows = store.table("many").match("people.parquet", column="id", carry=carry)
    rows.write(sys.argv[1])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


@pytest.mark.slow
def test_memory_is_bounded(s3: S3, home: Path, tmp_path: Path) -> None:
    def peak(output: object) -> int:
        command = [sys.executable, "-c", _PEAK, str(output)]
        ran = subprocess.run(command, cwd=home, capture_output=True, text=True, check=True)
        return int(ran.stdout)

    # The service takes parts more slowly than they are made.
    s3.proxy.fault = lambda request: time.sleep(0.5) if request.is_part else None
    here = peak(tmp_path / "wide.jsonl")
    assert (tmp_path / "wide.jsonl").stat().st_size > 300e6
    # Four parts of 16 MiB are under way, and one is filled.
    assert peak(url("wide.jsonl")) - here < 200


def test_credentials_of_a_profile(
    s3: S3, table: idmatch.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the environment has none; the region that it has counts."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    files = {"AWS_SHARED_CREDENTIALS_FILE": "credentials", "AWS_CONFIG_FILE": "config"}
    for name, file in files.items():
        monkeypatch.setenv(name, str(tmp_path / file))
    secret = f"aws_access_key_id = {KEY}\naws_secret_access_key = {SECRET}\n"
    (tmp_path / "credentials").write_text(f"[mine]\n{secret}")
    (tmp_path / "config").write_text("[profile mine]\nregion = us-west-2\n")
    with monkeypatch.context() as context:
        context.setenv("AWS_PROFILE", "mine")
        table.scan().write(url("mine.csv"))
        assert rows_of(s3.get("mine.csv"), "csv").total() == 4
        context.setenv("AWS_PROFILE", "yours")
        with pytest.raises(idmatch.InvalidArgument, match="AWS_PROFILE names none") as told:
            table.scan().write(url("yours.csv"))
        assert SECRET not in str(told.value)
    (tmp_path / "credentials").write_text(f"[default]\n{secret}")
    table.scan().write(url("default.csv"))
    assert rows_of(s3.get("default.csv"), "csv").total() == 4


def test_other_file_systems_and_local_addresses(table: idmatch.Table, tmp_path: Path) -> None:
    place = tmp_path / "a b"
    for scheme in ("file", "fsspec+file"):
        output = f"{scheme}://{str(place).replace(' ', '%20')}.{scheme}.csv"
        table.scan().write(output)
        with pytest.raises(idmatch.InvalidArgument, match="exists"):
            table.scan().write(output)
        table.scan().write(output, overwrite=True)
        with pytest.raises(idmatch.InvalidArgument, match="no column"):
            table.scan().write(f"{scheme}://{tmp_path}/none", format="csv", partition_by="none")
    written = sorted(path for path in tmp_path.iterdir() if path.name != "store")
    assert [rows_of(path.read_bytes(), "csv").total() for path in written] == [4, 4]
