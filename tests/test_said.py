"""What is said about how an input is read."""

import pyarrow as pa
import pyarrow.parquet as pq
from conftest import Cli


def test_how_an_input_is_read_is_said(loaded: Cli) -> None:
    read = loaded("match", "store", "small", "people.parquet")
    assert read.err == 'idmatch: read parquet: id from "id" (guessed)\n'
    read = loaded("match", "store", "small", "people.parquet", "--column", "id")
    assert read.err == 'idmatch: read parquet: id from "id"\n'
    dates = "dates as timestamp[ms, tz=UTC]"
    read = loaded("load", "store", "small", "small.parquet", "--columns", "id,,seen_at")
    columns = 'id from "id", partner_id from "partner_id" (guessed), seen_at from "seen_at"'
    assert read.err == f"idmatch: read parquet: {columns}, {dates}\n"
    (loaded.home / "in.txt").write_text("cookie|uid|at\na|x|03/11/2026\n", encoding="latin-1")
    how = ["--columns", "cookie,uid,at", "--date-format", "%d/%m/%Y", "--encoding", "latin-1"]
    columns = 'id from "cookie", partner_id from "uid", seen_at from "at", dates as %d/%m/%Y'
    for command in ("load", "upsert"):
        read = loaded(command, "store", "small", "in.txt", *how)
        assert read.err == f"idmatch: read csv (delimiter '|', latin-1): {columns}\n"
    one = loaded("upsert", "store", "small", "--id", "a", "--partner-id", "x")
    assert (one.code, one.err) == (0, "")


def test_columns_read_as_hex_are_said(cli: Cli) -> None:
    hashes = pa.array([bytes(range(16)), b"\xff" * 16], pa.binary(16))
    rows = {"id": hashes, "partner_id": ["x", "y"], "seen_at": ["2026-03-01"] * 2}
    pq.write_table(pa.table(rows), cli.home / "hashes.parquet")
    said = ', fixed-size binary "id" as lowercase hex\n'
    columns = ["--columns", "id,partner_id,seen_at"]
    for ran in (
        cli("load", "store", "t", "hashes.parquet"),
        cli("upsert", "store", "t", "hashes.parquet", *columns),
        cli("match", "store", "t", "hashes.parquet", "--column", "id"),
    ):
        assert (ran.code, ran.err.endswith(said)) == (0, True)
    assert cli("upsert", "store", "t", "hashes.parquet", "--json").json()["hex_columns"] == ["id"]
    matched = cli("match", "store", "t", "hashes.parquet", "--column", "id", "--json")
    assert (matched.err, matched.json()["hex_columns"], matched.json()["rows"]) == ("", ["id"], 2)
    assert cli("erase", "store", "t", "hashes.parquet", "--columns", "id").err.endswith(said)
    assert cli("lookup", "store", "t", "--id", "ff" * 16, "--json").json() == {"matches": []}
