"""Inputs in an object store: all of their rows or an error, whatever the service does."""

import gzip
import io
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import idmatch
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.fs as fs
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
from chosen import one_of
from conftest import NOON
from idmatch._sources._filesystems import filesystem_of
from s3 import BUCKET, S3, Request

pytest_plugins = ["s3_fixtures"]

MANY = 60_000
# Random digits are not packed away: each file takes several requests.
IDS = [f"{number * 0x9E3779B97F4A7C15 % (1 << 64):016x}" for number in range(2 * MANY)]
ROWS = pa.table(
    {
        "id": IDS[:MANY],
        "partner_id": IDS[MANY:],
        "seen_at": pa.array([NOON] * MANY, pa.timestamp("ms", "UTC")),
    }
)
_LINE = '{{"id":"{}","partner_id":"{}","seen_at":"2026-03-01T12:00:00Z"}}\n'


def as_parquet(rows: pa.Table) -> bytes:
    pq.write_table(rows, file := io.BytesIO(), row_group_size=5_000)
    return file.getvalue()


def as_orc(rows: pa.Table) -> bytes:
    orc.write_table(rows, file := io.BytesIO())
    return file.getvalue()


def as_csv(rows: pa.Table) -> bytes:
    pa_csv.write_csv(rows, file := io.BytesIO())
    return file.getvalue()


def as_json(rows: pa.Table) -> bytes:
    pairs = zip(rows["id"].to_pylist(), rows["partner_id"].to_pylist(), strict=True)
    return "".join(_LINE.format(*pair) for pair in pairs).encode()


FORMATS: dict[str, Callable[[pa.Table], bytes]] = {
    "parquet": as_parquet,
    "orc": as_orc,
    "csv": as_csv,
    "csv.gz": lambda rows: gzip.compress(as_csv(rows)),
    "jsonl": as_json,
}


def put(s3: S3, format: str, folder: str = "days") -> str:
    """Puts ROWS into a folder of three files; returns its address."""
    for at in range(3):
        rows = ROWS.slice(at * MANY // 3, MANY // 3)
        s3.put(f"{folder}/{at}.{format}", FORMATS[format](rows))
    return f"s3://{BUCKET}/{folder}"


# A file that is read in many requests is asked for slowly.
_FAULTS = [
    "cut",
    *(pytest.param(name, marks=pytest.mark.slow) for name in ("half answer", "slow down")),
]


@pytest.mark.parametrize("format", one_of(list(FORMATS)))
@pytest.mark.parametrize("fault", _FAULTS)
def test_requests_are_repeated(s3: S3, store: idmatch.Store, format: str, fault: str) -> None:
    """The first of each, those of the list of files too."""
    where = put(s3, format)
    seen: set[Request] = set()

    def first_fails(request: Request) -> str | None:
        is_first = request not in seen
        seen.add(request)
        return fault if is_first else None

    s3.proxy.fault = first_fails
    table = store.create_table("t")
    assert table.load(where).rows == MANY
    assert table.stats().rows == MANY
    assert any("list-type" in one.path for one in seen)
    assert sum(one.method == "GET" for one in seen) > 3


@pytest.mark.slow
def test_a_service_that_stays_broken_is_an_error(s3: S3, store: idmatch.Store) -> None:
    """Of the last file, whose rows are never read without those of others."""
    faults = {"half": "half answer", "slow": "slow down"}
    cases = [f"{name}/{format}" for name in faults for format in ("csv.gz", "parquet", "orc")]
    where = {case: put(s3, case.partition("/")[2], case) for case in cases}

    def fault(request: Request) -> str | None:
        name = request.path.removeprefix(f"/{BUCKET}/").partition("/")[0]
        is_last = request.method == "GET" and "/2." in request.path
        return faults.get(name) if is_last else None

    s3.proxy.fault = fault
    table = store.create_table("t")
    session = table.begin()

    def add(case: str) -> None:
        with pytest.raises(idmatch.SourceError, match=rf"{case}/2\."):
            session.add(where[case])

    # Requests are repeated for some seconds.
    with ThreadPoolExecutor(len(cases)) as pool:
        list(pool.map(add, cases))
    assert session.commit() == idmatch.Committed(rows=0, rejected=0)
    assert table.stats().rows == 0


def test_half_a_list_is_an_error(s3: S3, store: idmatch.Store) -> None:
    where = put(s3, "csv")
    s3.proxy.fault = lambda one: "half answer" if "list-type" in one.path else None
    with pytest.raises(idmatch.SourceError, match="days"):
        store.create_table("t").load(where)


def test_schemes_of_s3(s3: S3, store: idmatch.Store) -> None:
    put(s3, "parquet")
    table = store.create_table("t")
    for source in (f"s3a://{BUCKET}/days", f"S3A://{BUCKET}/da*/*.parquet"):
        assert table.load(source).rows == MANY
    with pytest.raises(idmatch.SourceError, match=f"s3a://{BUCKET}/none"):
        table.load(f"s3a://{BUCKET}/none")


HOST = "me.dfs.core.windows.net"


@pytest.mark.parametrize(
    ("url", "account", "path"),
    [
        ("az://people/a%20b.csv", "env", "people/a b.csv"),
        ("AZ://people", "env", "people"),
        ("abfs://people/in/", "env", "people/in"),
        (f"abfs://people@{HOST}/a.csv", "me", "people/a.csv"),
        (f"abfss://people@{HOST}/a.csv", "me", "people/a.csv"),
        (f"az://people@{HOST}/a.csv", "me", "people/a.csv"),
        ("abfs://me:c2VjcmV0@people/a.csv", "me", "people/a.csv"),
        ("az://me:c2VjcmV0@people/a.csv", "me", "people/a.csv"),
    ],
)
def test_addresses_of_azure(
    monkeypatch: pytest.MonkeyPatch, url: str, account: str, path: str
) -> None:
    """Without a key of its own, an address goes by that of the environment."""
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "env")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "ZW52")
    key = "c2VjcmV0" if "c2VjcmV0" in url else "ZW52"
    expected = fs.AzureFileSystem(account, account_key=key)
    assert filesystem_of(url) == (expected, path)
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_KEY")
    monkeypatch.setenv("AZURE_STORAGE_SAS_TOKEN", "sv=2026&sig=x")
    if key == "ZW52":
        expected = fs.AzureFileSystem(account, sas_token="sv=2026&sig=x")
    assert filesystem_of(url) == (expected, path)


def test_azure_needs_an_account(store: idmatch.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
    with pytest.raises(idmatch.SourceError, match=r"az://people/a\.csv.*ACCOUNT_NAME"):
        store.create_table("t").load("az://people/a.csv")
