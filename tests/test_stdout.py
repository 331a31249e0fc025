"""Standard output as an output: it is written where it stands, whatever it is."""

import fcntl
import io
import random
import signal
import socket
import struct
import subprocess
import termios
from pathlib import Path
from typing import Any, Literal

import idmatch
import pyarrow as pa
import pyarrow.ipc as ipc
import pyarrow.parquet as pq
import pytest
from conftest import Cli

FORMATS = ["parquet", "csv", "csv.gz", "csv.zst", "jsonl", "jsonl.gz", "jsonl.zst", "arrow"]
KEPT = b"what was there before\n"


@pytest.fixture
def large(loaded: Cli) -> Cli:
    """A store whose table `hot` is larger than what a pipe holds."""
    generator = random.Random(7)
    partner_ids = [f"{generator.getrandbits(128):032x}" for _ in range(50_000)]
    rows = pa.table({"id": ["a"] * 50_000, "partner_id": partner_ids})
    home = loaded.home / "seen_at=2026-01-01"
    home.mkdir()
    pq.write_table(rows, home / "rows.parquet")
    assert loaded("load", "store", "hot", "seen_at=2026-01-01").code == 0
    return loaded


def export(cli: Cli, table: str, format: str, stdout: Any) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        cli.command("export", "store", table, "-o", "-", "--format", format),
        stdout=stdout,
        stderr=subprocess.PIPE,
        cwd=cli.home,
    )


def rows_of(written: bytes, format: str) -> list[str]:
    """The rows, sorted: threads write them in any order."""
    kind, _, packing = format.partition(".")
    if kind == "parquet":
        return sorted(map(str, pq.read_table(io.BytesIO(written)).to_pylist()))
    if kind == "arrow":
        # Standard output is a stream, which ends where it ends.
        return sorted(map(str, ipc.open_stream(written).read_all().to_pylist()))
    if packing:
        codec: Literal["gzip", "zstd"] = "gzip" if packing == "gz" else "zstd"
        written = pa.CompressedInputStream(io.BytesIO(written), codec).read()
    return sorted(written.decode().splitlines())


def check(written: bytes, cli: Cli, format: str) -> None:
    file = cli.home / f"all.{format}"
    with idmatch.open(cli.home / "store", read_only=True) as store:
        store.table("small").scan().write(file, overwrite=True)
    if format == "arrow":
        there = ipc.open_file(file.read_bytes()).read_all()
        assert rows_of(written, format) == sorted(map(str, there.to_pylist()))
    else:
        assert rows_of(written, format) == rows_of(file.read_bytes(), format)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("mode", ["wb", "ab"])
def test_a_file_that_has_something_keeps_it(
    loaded: Cli, tmp_path: Path, format: str, mode: str
) -> None:
    path = tmp_path / "output"
    path.write_bytes(KEPT if mode == "ab" else b"")
    with path.open(mode, buffering=0) as output:
        if mode == "wb":
            output.write(KEPT)
        process = export(loaded, "small", format, output)
        process.communicate()
        assert process.returncode == 0
        output.write(KEPT)
    written = path.read_bytes()
    assert written.startswith(KEPT)
    assert written.endswith(KEPT)
    check(written[len(KEPT) : -len(KEPT)], loaded, format)


@pytest.mark.parametrize("format", FORMATS)
def test_a_pipe_and_a_socket(loaded: Cli, format: str) -> None:
    process = export(loaded, "small", format, subprocess.PIPE)
    check(process.communicate()[0], loaded, format)
    assert process.returncode == 0
    here, there = socket.socketpair()
    with here, here.makefile("rb") as reader:
        with there:
            process = export(loaded, "small", format, there)
        check(reader.read(), loaded, format)
        process.communicate()
        assert process.returncode == 0


def without_reader(process: subprocess.Popen[bytes]) -> tuple[int, bytes]:
    """Exit code and stderr of a process whose standard output is closed after a byte."""
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.read(1)
    process.stdout.close()
    said = process.stderr.read()
    return process.wait(), said


@pytest.mark.parametrize("format", ["parquet", "csv", "jsonl.gz", "arrow"])
def test_a_reader_that_goes_away(large: Cli, format: str) -> None:
    assert without_reader(export(large, "hot", format, subprocess.PIPE)) == (141, b"")


def test_a_reader_of_rejects_that_goes_away(cli: Cli) -> None:
    rows = "".join(f"i{row},p{row},never\n" for row in range(100_000))
    (cli.home / "in.csv").write_text("id,partner_id,seen_at\n" + rows)
    command = cli.command("load", "store", "t", "in.csv", "--rejects", "-")
    process = subprocess.Popen(
        command, cwd=cli.home, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert without_reader(process) == (141, b"idmatch: made table t\n")


def test_ctrl_c_while_nobody_reads(large: Cli) -> None:
    process = export(large, "hot", "csv", subprocess.PIPE)
    assert process.stdout is not None
    while not struct.unpack("i", fcntl.ioctl(process.stdout, termios.FIONREAD, b"\0" * 4))[0]:
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    assert process.wait(120) == 130
    assert process.stderr is not None
    assert b"interrupted" in process.stderr.read()
