"""CSV as partners write it."""

import bz2
import gzip
from datetime import UTC, datetime

import idmatch
import pytest
from conftest import Cli, rejects_file

DAY = datetime(2026, 11, 3, tzinfo=UTC)


def found(cli: Cli, table: str = "t") -> dict[str, list[str]]:
    """The partner IDs of the ids "a" and "é"."""
    with idmatch.open(cli.home / "store") as store:
        return {
            id: [partner_id for partner_id, _ in store.table(table).lookup(id)] for id in ("a", "é")
        }


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-16", "utf-16-le"])
def test_encodings(cli: Cli, encoding: str) -> None:
    text = "Identité;partner;date\na;é€;2026-11-03\né;p;2026-11-03\n"
    if encoding == "latin-1":
        text = text.replace("€", "")
    partner = text.splitlines()[1].split(";")[1]
    (cli.home / "rows.csv").write_bytes(text.encode(encoding))
    command = ["rows.csv", "--columns", "Identité", "--encoding", encoding]
    ran = cli("load", "store", "t", *command)
    assert ran.code == 0, ran.err
    assert found(cli) == {"a": [partner], "é": ["p"]}
    matched = cli(
        "match", "store", "t", "rows.csv", "--column", "Identité", "--encoding", encoding, "--json"
    )
    assert matched.json()["matched"] == 2
    unsaid = cli("load", "store", "u", "rows.csv", "--columns", "Identité")
    assert unsaid.code == 1
    assert "--" not in unsaid.err or "encoding" in unsaid.err, unsaid.err


def test_no_header_and_columns_by_number(cli: Cli) -> None:
    rows = b"2026-11-03,p,a\n2026-11-03,q,a\nbroken\n2026-11-03,r,a\n"
    for name, data in {"gz": gzip.compress(rows), "bz2": bz2.compress(rows)}.items():
        (cli.home / f"rows.csv.{name}").write_bytes(data)
        columns = ["--columns", "3,2,1", "--no-header"]
        ran = cli("load", "store", name, f"rows.csv.{name}", *columns, "--json")
        assert (ran.code, ran.json()["rows"], ran.json()["rejected"]) == (3, 4, 1), ran.err
        assert found(cli, name)["a"] == ["p", "q", "r"]
        (_, reject) = rejects_file(cli.home).read_text().splitlines()
        assert reject.split(",")[1] == "3"
    unnamed = cli("load", "store", "gz", "rows.csv.gz", "--no-header")
    assert (unnamed.code, "1 (binary), 2 (binary), 3 (binary)" in unnamed.err) == (2, True)


def test_delimiters_quotes_nulls_and_comments(cli: Cli) -> None:
    (cli.home / "rows.csv").write_text(
        "# made by a partner\n# on Tuesday\n\nid^partner_id^date\n'a'^'p^q'^2026-11-03\n"
        "#^^the rest is old^^\na^NULL^2026-11-03\na^\\N^2026-11-03\n'NULL'^r^2026-11-03\nb^x\n"
    )
    command = ["--delimiter", "^", "--quote", "'", "--comment", "#"]
    nulls = ["--null", "NULL", "--null", "\\N"]
    ran = cli("load", "store", "t", "rows.csv", *command, *nulls, "--json")
    assert (ran.code, ran.json()["rows"], ran.json()["rejected"]) == (3, 5, 3), ran.err
    assert found(cli)["a"] == ["p^q"]
    rejects = rejects_file(cli.home).read_text().splitlines()[1:]
    assert sorted(line.split(",")[1] for line in rejects) == ["2", "3", "5"]
    stdin = (cli.home / "rows.csv").read_text()
    streamed = cli("upsert", "store", "s", "-", "--create", *command, *nulls, "--json", stdin=stdin)
    assert (streamed.json()["rows"], streamed.json()["rejected"]) == (5, 3), streamed.err
    (cli.home / "tabs.csv").write_text('a\t"p\t2026-11-03\n')
    tabs = ["tabs.csv", "--delimiter", "tab", "--quote", "", "--no-header"]
    ran = cli("load", "store", "tabs", *tabs, "--columns", "1,2,3")
    assert (ran.code, found(cli, "tabs")["a"]) == (0, ['"p']), ran.err


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_line_ends(cli: Cli, end: str) -> None:
    rows = end.join(["id,partner_id,date", "a,p,2026-11-03", "a,q,2026-11-03", ""])
    (cli.home / "rows.csv").write_bytes(b"\xef\xbb\xbf" + rows.encode())
    assert cli("load", "store", "t", "rows.csv").code == 0
    assert found(cli)["a"] == ["p", "q"]
    ran = cli("upsert", "store", "s", "-", "--create", "--json", stdin=rows)
    assert (ran.code, ran.json()["rows"]) == (0, 2), ran.err
    assert found(cli, "s")["a"] == ["p", "q"]
    header = cli("upsert", "store", "s", "-", stdin=f"id,partner_id,date{end}")
    assert (header.code, "there were no rows" in header.err) == (0, True), header.err


def test_options_that_no_reader_can_follow(cli: Cli) -> None:
    (cli.home / "rows.csv").write_text("id,partner_id,date\n")
    for wrong, said in (
        (["--delimiter", "::"], "'::'"),
        (["--delimiter", "é"], "'é'"),
        (["--quote", ",", "--delimiter", ","], "are the same"),
        (["--encoding", "klingon"], "'klingon'"),
        (["--comment", ""], "is empty"),
    ):
        ran = cli("load", "store", "t", "rows.csv", *wrong)
        assert (ran.code, said in ran.err) == (2, True), ran.err


def test_from_python(cli: Cli) -> None:
    (cli.home / "rows.csv").write_bytes("a|\xe9|2026-11-03\n".encode("latin-1"))
    csv = idmatch.Csv(encoding="latin-1", header=False)
    with idmatch.open(cli.home / "store") as store:
        table = store.create_table("t")
        assert table.load(cli.home / "rows.csv", columns=("1", "2", "3"), csv=csv).rows == 1
        assert table.lookup("a") == [("é", DAY)]
        population = table.match(cli.home / "rows.csv", column="2", by="partner_id", csv=csv)
        assert population.matched == 1
        erased = table.erase_from(cli.home / "rows.csv", columns=("1",), csv=csv)
        assert erased.by_id == 1


def test_identifiers_in_place_of_a_header(cli: Cli) -> None:
    """The first row of a file without a header is taken for one: no message has its values."""
    ids = [f"{n:016x}" for n in range(10**15, 10**15 + 3)]
    (cli.home / "ids.csv").write_text("\n".join(ids) + "\n")
    (cli.home / "rows.csv").write_text(f"{ids[0]},ada@example.com,2026-11-03\n")
    (cli.home / "good.csv").write_text("id,uid_2026,date\na,p,2026-11-03\n")
    assert cli("load", "store", "t", "good.csv", "--columns", "id,uid_2026").code == 0
    ran = cli("load", "store", "t", "rows.csv")
    assert (ran.code, "--no-header" in ran.err) == (2, True)
    ran = cli("match", "store", "t", "ids.csv")
    assert (ran.code, "--no-header" in ran.err) == (0, True)
    said = cli("load", "store", "t", "rows.csv").err + ran.err
    assert not any(value in said for value in (*ids, "ada@example.com")), said
    ran = cli("load", "store", "t", "good.csv", "--columns", "id,uid_2026")
    assert ("--no-header" in ran.err, '"uid_2026"' in ran.err) == (False, True)
    ran = cli("match", "store", "t", "ids.csv", "--no-header", "--json")
    assert ran.json()["population"] == len(ids)
