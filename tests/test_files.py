"""Files that can be read: formats, globs, directories, partitions, URLs, and what is refused."""

import gzip
import os
from collections.abc import Callable
from pathlib import Path

import idmatch
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
from conftest import NOON, SMALL

Writer = Callable[[pa.Table, Path], None]


def write_csv(rows: pa.Table, path: Path) -> None:
    """CSV, compressed as its name says."""
    with pa.output_stream(path, compression="detect") as stream:
        pa_csv.write_csv(rows, stream)


FORMATS: dict[str, Writer] = {
    "rows.parquet": pq.write_table,
    "rows.orc": orc.write_table,
    "rows.csv": write_csv,
    "rows.csv.gz": write_csv,
    "rows.csv.zst": write_csv,
    "rows.tsv": lambda rows, path: pa_csv.write_csv(
        rows, path, pa_csv.WriteOptions(delimiter="\t")
    ),
}


@pytest.fixture
def empty(store: idmatch.Store) -> idmatch.Table:
    return store.create_table("loaded")


def loaded_pairs(table: idmatch.Table) -> int:
    return sum(table.partner_ids(id).num_rows for id in ("a", "b", "c"))


@pytest.mark.parametrize("name", FORMATS)
def test_every_format(empty: idmatch.Table, tmp_path: Path, name: str) -> None:
    FORMATS[name](SMALL, tmp_path / name)
    report = empty.load(tmp_path / name)
    assert (report.rows, report.rejected, report.rejects) == (5, 0, None)
    assert empty.latest_partner_id("a") == ("x", NOON)
    assert loaded_pairs(empty) == 4


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_as_population(table: idmatch.Table, tmp_path: Path, name: str) -> None:
    FORMATS[name](pa.table({"id": ["a", "a", "nobody"]}), tmp_path / name)
    result = table.match(tmp_path / name)
    assert (result.population, result.matched, result.rows) == (3, 2, 4)


def test_a_file_is_known_by_its_first_bytes(empty: idmatch.Table, tmp_path: Path) -> None:
    pq.write_table(SMALL.slice(0, 2), tmp_path / "000000_0")
    orc.write_table(SMALL.slice(2), tmp_path / "000001_0")
    assert empty.load([tmp_path / "000000_0", str(tmp_path / "000001_0")]).rows == 5
    (tmp_path / "notes").write_text("id and so on")
    with pytest.raises(idmatch.SourceError, match=r"what kind of file .*notes"):
        empty.load(tmp_path / "notes")


def test_globs_and_directories(empty: idmatch.Table, tmp_path: Path) -> None:
    for at, place in enumerate(["in/one.parquet", "in/deep/er/two.parquet", "in/three.csv"]):
        path = tmp_path / place
        path.parent.mkdir(parents=True, exist_ok=True)
        write = pq.write_table if path.suffix == ".parquet" else write_csv
        write(SMALL.slice(at, 1), path)
    (tmp_path / "in" / "_SUCCESS").touch()
    (tmp_path / "in" / ".one.parquet.crc").write_bytes(b"crc")
    for source, rows in {
        "in": 3,
        "in/*.parquet": 1,
        "in/*": 3,  # the directory that matches is read, too
        "in/**/*.parquet": 2,
        "in/**/*": 3,
        "in/[ot]*.*": 2,
        "i?/deep/er/two.parquet": 1,
    }.items():
        assert empty.load(f"{tmp_path}/{source}").rows == rows, source


def test_relative_globs(
    empty: idmatch.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pq.write_table(SMALL, tmp_path / "rows.parquet")
    monkeypatch.chdir(tmp_path)
    assert empty.load("*.parquet").rows == 5
    assert empty.load("./r*.parquet").rows == 5


def test_a_file_whose_name_looks_like_a_glob(empty: idmatch.Table, tmp_path: Path) -> None:
    pq.write_table(SMALL, tmp_path / "rows[1].parquet")
    assert empty.load(tmp_path / "rows[1].parquet").rows == 5


def test_csv_dialects(empty: idmatch.Table, tmp_path: Path) -> None:
    lines = '\ufeff\n"an; id";"partner_id";when\n"a";"x;y";2026-03-01\n\n'
    (tmp_path / "rows.csv").write_text(lines.replace("\n", "\r\n"), newline="")
    assert empty.load(tmp_path / "rows.csv", columns=["an; id", "", "when"]).rows == 1
    assert empty.latest_partner_id("a") == ("x;y", NOON.replace(hour=0))


def test_partitions_are_columns(empty: idmatch.Table, tmp_path: Path) -> None:
    for day in ("2026-01-01", "2026-01-02"):
        for partner in ("x%2Fy", "z"):
            home = tmp_path / "in" / f"day={day}" / f"partner_id={partner}"
            home.mkdir(parents=True)
            pq.write_table(pa.table({"cookie": ["a"]}), home / "0.parquet")
            write_csv(pa.table({"cookie": ["a", "b"]}), home / "1.csv")
    assert empty.load(tmp_path / "in", columns={"seen_at": "day"}).rows == 12
    answers = empty.partner_ids("b")
    assert answers.column("partner_id").to_pylist() == ["x/y", "z"]
    assert {f"{date:%Y-%m-%d}" for date in answers.column("seen_at").to_pylist()} == {"2026-01-02"}


def test_a_null_partition_is_rejected(empty: idmatch.Table, tmp_path: Path) -> None:
    home = tmp_path / "seen_at=__HIVE_DEFAULT_PARTITION__"
    home.mkdir()
    pq.write_table(SMALL.select(["id", "partner_id"]), home / "0.parquet")
    report = empty.load(home, rejects=tmp_path / "rejects.csv")
    assert (report.rows, report.rejected) == (5, 5)


def test_urls(empty: idmatch.Table, tmp_path: Path) -> None:
    for name in ("one.parquet", "two.parquet"):
        pq.write_table(SMALL, tmp_path / name)
    assert empty.load(f"file://{tmp_path}/one.parquet").rows == 5
    assert empty.load(f"file://{tmp_path}/*.parquet").rows == 10
    with pytest.raises(idmatch.SourceError, match="nope://"):
        empty.load("nope://bucket/rows.parquet")


def test_huge_row_groups_are_read_piece_by_piece(
    empty: idmatch.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from idmatch._sources import _columnar

    monkeypatch.setattr(_columnar, "_MAX_SCANNED_GROUP_ROWS", 2)
    home = tmp_path / "seen_at=2026-01-01"
    home.mkdir()
    pq.write_table(SMALL.select(["partner_id", "id"]), home / "0.parquet")
    empty.load(home)
    assert empty.partner_ids("a").column("partner_id").to_pylist() == ["x", "y"]


def test_files_without_rows(empty: idmatch.Table, tmp_path: Path) -> None:
    for name in FORMATS:
        if name != "rows.orc":  # pyarrow writes no ORC file without rows
            FORMATS[name](SMALL.slice(0, 0), tmp_path / name)
    assert empty.load(tmp_path / "rows.*").rows == 0


@pytest.mark.parametrize("where", ["missing.parquet", "missing/*.csv", "*.nothing", "empty"])
def test_nothing_to_read(empty: idmatch.Table, tmp_path: Path, where: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(idmatch.SourceError, match=where.replace("*", r"\*")):
        empty.load(tmp_path / where)


def test_a_load_of_standard_input_names_upsert(empty: idmatch.Table) -> None:
    with pytest.raises(idmatch.SourceError, match=r"cannot read -: .*`upsert -` reads standard"):
        empty.load("-")


@pytest.mark.parametrize("where", ["rows.csv", "*.csv", ""])
def test_a_pipe_is_refused(empty: idmatch.Table, tmp_path: Path, where: str) -> None:
    """No writer is waited for; of a glob or a folder neither."""
    folder = tmp_path / "in"
    folder.mkdir()
    os.mkfifo(folder / "rows.csv")
    with pytest.raises(idmatch.SourceError, match=r"rows\.csv: it is a pipe or a device"):
        empty.load(folder / where)


def test_files_that_are_not_what_they_say(empty: idmatch.Table, tmp_path: Path) -> None:
    for name in ("bad.parquet", "bad.orc", "bad.csv.gz"):
        (tmp_path / name).write_bytes(b"not what the name says")
        with pytest.raises(idmatch.SourceError, match=name):
            empty.load(tmp_path / name)
    (tmp_path / "empty.csv").touch()
    with pytest.raises(idmatch.SourceError, match="header"):
        empty.load(tmp_path / "empty.csv")


def test_a_file_that_breaks_off_loads_nothing(empty: idmatch.Table, tmp_path: Path) -> None:
    write_csv(SMALL, tmp_path / "1.csv")
    lines = "id,partner_id,seen_at\n" + "a,b,2026-01-01\n" * 200_000
    (tmp_path / "2.csv.gz").write_bytes(gzip.compress(lines.encode())[:-500])
    with pytest.raises(idmatch.SourceError, match=r"2\.csv\.gz"):
        empty.load(tmp_path / "*.csv*")
    assert loaded_pairs(empty) == 0


def test_columns_are_named(empty: idmatch.Table, tmp_path: Path) -> None:
    rows = SMALL.rename_columns(["k1", "k2", "when"]).append_column("n", pa.array(range(5)))
    pq.write_table(rows, tmp_path / "rows.parquet")
    with pytest.raises(idmatch.InvalidArgument, match=r"k1.*k2.*when \(timestamp.*n \(int64"):
        empty.load(tmp_path / "rows.parquet")
    with pytest.raises(idmatch.InvalidArgument, match=r"'k9'.*k1.*k2"):
        empty.load(tmp_path / "rows.parquet", columns=["k9"])
    empty.load(tmp_path / "rows.parquet", columns=["k1", "k2", "when"])
    assert loaded_pairs(empty) == 4


@pytest.mark.parametrize(
    ("names", "named"),
    [
        (["ID", "Partner-ID", "Date"], {}),
        (["cookie", "partner_uid", "last_seen"], {}),
        (["cookie", "uid", "when"], {}),
        (["email", "cookie", "ts"], {"id": "email"}),
        (["k1", "k2", "k3"], {"id": "k1"}),
    ],
)
def test_columns_are_guessed(empty: idmatch.Table, names: list[str], named: dict[str, str]) -> None:
    empty.load(SMALL.rename_columns(names), columns=named)
    assert empty.latest_partner_id("a") == ("x", NOON)


@pytest.mark.parametrize("names", [["email", "cookie", "ts"], ["k1", "k2", "ts"]])
def test_columns_are_not_guessed_where_two_fit(empty: idmatch.Table, names: list[str]) -> None:
    with pytest.raises(idmatch.InvalidArgument, match=f"{names[0]}, {names[1]}"):
        empty.load(SMALL.rename_columns(names))


def test_two_columns_of_one_name(empty: idmatch.Table) -> None:
    rows = SMALL.append_column("id", SMALL.column("id"))
    with pytest.raises(idmatch.InvalidArgument, match="2"):
        empty.load(rows, columns=["id"])
