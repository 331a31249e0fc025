"""What is secret in an address is printed by no command, however the address is spelled."""

import io
import pickle
import sys
from pathlib import Path

import idmatch
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import SMALL
from idmatch._address import Address
from idmatch._cli import main
from idmatch._text import escaped, shown

SECRET = "hunter2"
# Nobody listens there.
HOST = "127.0.0.1:1"
SPELLINGS = [
    spelling.replace("PW", SECRET).replace("HOST", HOST)
    for spelling in (
        "cql://me:PW@HOST/ids?timeout=1ms",
        "CQL://me:PW@HOST/ids?timeout=1ms",
        "Cql://me:PW@HOST/ids?timeout=1ms",
        " cql://me:PW@HOST/ids",
        "\tcql://me:PW@HOST/ids",
        "cql:/me:PW@HOST/ids",
        "cql:///me:PW@HOST/ids",
        "cql:me:PW@HOST/ids",
        "cql ://me:PW@HOST/ids",
        "cql: //me:PW@HOST/ids",
        "cql://PW@HOST",
        "cql://me:PW@HOST",
        "cql://me:PW@HOST/Ids",
        "cql://me:PW@HOST/ids/more",
        "cql://me:PW@h:port/ids",
        "cql://me:PW@/ids",
        "cql://me:PW@ h/ids",
        "cql://me:x/PW@h:port/ids",
        "cql://me:x?PW@h/ids",
        "cql://me:x@PW@h:port/ids",
        "cql://me%3APW@h:port/ids",
        "cql://h/ids?timeout=PW",
        "cql://h/ids?timeout=PW&timeout=PW",
        "cql://h/ids?in_flight=PW",
        "cql://h/ids?read_consistency=PW",
        "cql://h/ids?datacenter=x&replication=PW",
        "cql://h/ids?password=PW",
        "cql://h/ids?PW",
        "cql://h/ids?&PW=1",
        "cassandra://me:PW@h/ids",
        "scylla://me:PW@h/ids?x=PW",
        "s3://KEY:PW@bucket/rows.parquet",
        "s3://bucket/rows.parquet?secret_key=PW",
        "s3://KEY:PW/x@bucket/*.parquet?region=eu-central-1",
        "S3://KEY:PW@bucket/rows.parquet",
        "s3a://KEY:PW@bucket/rows.parquet",
        "gs://me:PW@bucket/rows.parquet?x=PW",
        "ftp://me:PW@h/rows.parquet",
        "https://me:PW@h/rows.parquet?token=PW",
        "hdfs://me:PW@h:port/rows.parquet",
        "hive://me:PW@127.0.0.1:1/d/t",
        "hive://me:PW@h:port/d/t?x=PW",
        "hive://h/d/t?auth=PW",
        "mongodb+srv://me:PW@h/db",
        "jdbc:cassandra://me:PW@h/ids",
    )
]
ASKED = 2
USES = [
    ["create", "URL", "t"],
    ["load", "URL", "t", "rows.parquet"],
    ["load", "store", "t", "URL"],
    ["load", "store", "t", "bad.csv", "--rejects", "URL"],
    ["load", "store", "t", "bad.csv", "--rejects=URL"],
    ["load", "URL", "t", "URL", "--dry-run"],
    ["upsert", "URL", "t", "--id", "a", "--partner-id", "x"],
    ["upsert", "store", "t", "URL"],
    ["upsert", "URL", "t", "-"],
    ["erase", "URL", "t", "--id", "a"],
    ["erase", "store", "t", "URL", "--columns", "id"],
    ["match", "URL", "t", "rows.parquet"],
    ["match", "store", "t", "URL"],
    ["match", "store", "t", "rows.parquet", "-o", "URL"],
    ["lookup", "URL", "t", "--id", "a"],
    ["tables", "URL"],
    ["tables", "URL", "--explain"],
    ["alter", "URL", "t", "--retention", "90d"],
    ["rename", "URL", "t", "u"],
    ["drop", "URL", "t", "--yes"],
    ["verify", "URL"],
    ["verify", "URL", "--repair"],
    ["compact", "URL"],
    ["copy", "URL", "store"],
    ["copy", "store", "URL", "t"],
    ["backup", "URL", "backup"],
    ["backup", "store", "URL"],
    ["restore", "URL", "restored"],
    ["restore", "backup", "URL"],
    ["sample", "URL", "--people", "0"],
    ["URL"],
    ["tables", "store", "URL"],
    ["lab", "URL"],
    ["lookup", "store", "URL", "--id", "a"],
]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory: a store, a file of rows and one of bad rows."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    pq.write_table(SMALL, "rows.parquet")
    Path("bad.csv").write_text("id,partner_id,seen_at\na,,2026-03-01\n")
    with idmatch.open("store") as store:
        store.create_table("t").load("rows.parquet")
    return tmp_path


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_no_command_prints_it(
    home: Path, spelling: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = sorted(path.name for path in home.iterdir())
    for number, use in enumerate(USES):
        words = [word.replace("URL", spelling) for word in use]
        # To ask a service that is not there takes long each time.
        is_s3 = spelling.lower().startswith(("s3://", "s3a://"))
        is_asked = is_s3 and "URL" in use[2:4] and "-o" not in use
        if is_asked and number > ASKED:
            continue
        words += ["--json"] if (number + len(spelling)) % 2 else []
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
        try:
            code = main(words)
        except SystemExit as error:
            code = int(str(error.code))
        printed = "".join(capfd.readouterr())
        assert SECRET not in printed, (words, printed)
        # The settings of an address need no server, and have no password.
        assert code != 0 or "--explain" in words, (words, printed)
    # Nothing is made in its name either.
    made = {path.name for path in home.iterdir()} - {*before, "store.rejects"}
    assert not any(SECRET in name for name in made), made


def test_python_does_not_say_it(home: Path) -> None:
    for spelling in SPELLINGS:
        with pytest.raises((idmatch.Error, ValueError)) as raised:
            idmatch.open(spelling)
        assert SECRET not in str(raised.value) + repr(raised.value), spelling


def test_what_is_shown_of_urls() -> None:
    for url, safe in (
        ("cql://me:x@h1,h2:9043/ids?timeout=3s", "cql://h1,h2:9043/ids"),
        ("CQL://h/ids", "cql://h/ids"),
        ("s3://bucket/a/b.parquet?region=x", "s3://bucket/a/b.parquet"),
        ("s3://KEY:a/b?c@d@bucket/k", "s3://bucket/k"),
        ("./store", "./store"),
        ("/data/me@home:x", "/data/me@home:x"),
    ):
        address = Address(url)
        assert (str(address), f"{address}", f"{address!s:>0}") == (safe, safe, safe)
        assert repr(address) == f"Address({safe!r})"
        assert address.scrub(f"cannot open {url}: no") == f"cannot open {safe}: no"
        assert pickle.loads(pickle.dumps(address)).whole == url
    for spelling in SPELLINGS:
        assert SECRET not in f"{Address(spelling)}{Address(spelling)!r}", spelling


def test_text_from_outside_is_escaped(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert escaped("a\x1b[31mb\x9bc\n") == "a\\x1b[31mb\\x9bc\\n"
    assert (len(shown("x" * 500)), shown("é")) == (80, "é")
    hostile = "\x1b]0;owned\x07\x9b31m" + "y" * 500
    pq.write_table(pa.table({hostile: ["a"], "other": ["b"]}), "hostile.parquet")
    Path("\x1b[2J.csv").write_text("\x1b[1m,x\n1,2\n")
    for words in (
        ["load", "store", "t", "hostile.parquet"],
        ["match", "store", "t", "hostile.parquet", "--column", hostile + "z"],
        ["match", "store", "t", "hostile.parquet"],
        ["load", "store", "t", "\x1b[2J.csv"],
        ["load", "store", "t", "\x1b[3J.csv"],
        ["load", "store", "t", "hostile.parquet", "--rejects", "nowhere/\x1b[2J"],
        ["lookup", "store", "\x1b[2J", "--id", "a"],
        ["tables", "\x1b[2J"],
    ):
        for json in ([], ["--json"]):
            assert main([*words, *json]) != 0
            printed = "".join(capfd.readouterr())
            assert not any((ord(c) < 32 and c != "\n") or 127 <= ord(c) < 160 for c in printed), (
                words
            )
            assert "y" * 100 not in printed
