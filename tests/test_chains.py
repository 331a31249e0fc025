"""Carried columns, unmatched rows and chains: what DuckDB's joins over the same rows give."""

import tempfile
import threading
from typing import Any, NamedTuple

import duckdb
import idmatch
import pyarrow as pa
import pytest
from conftest import NOON, SMALL, observations
from hypothesis import given, settings
from hypothesis import strategies as st
from idmatch._types import By, How, Keep

SIDES: list[By] = ["id", "partner_id"]
KEEPS: list[Keep] = ["last", "all"]
HOWS: list[How] = ["inner", "left"]
Rows = list[tuple[Any, ...]]

# The same names on both sides, so that chains by either side find something.
NAMES = st.sampled_from(["a", "b", "c", "d", "7", "00"])
POPULATION = st.lists(st.one_of(NAMES, st.sampled_from([None, "", "nobody"])), max_size=12)


class Hop(NamedTuple):
    """A table, and what it is asked."""

    rows: list[tuple[str, str, int]]
    keep: Keep
    by: By
    limit: int | None
    since: int | None
    until: int | None

    @property
    def other(self) -> By:
        """The side of the answers."""
        return "partner_id" if self.by == "id" else "id"

    def question(self) -> dict[str, Any]:
        """The arguments of a match."""
        window = {"since": _iso(self.since), "until": _iso(self.until)}
        return {"by": self.by, "limit": self.limit} | window


HOPS = st.builds(
    Hop,
    st.lists(st.tuples(NAMES, NAMES, st.integers(0, 6)), max_size=20),
    st.sampled_from(KEEPS),
    st.sampled_from(SIDES),
    st.one_of(st.none(), st.integers(1, 3)),
    st.one_of(st.none(), st.integers(0, 3)),
    st.one_of(st.none(), st.integers(3, 7)),
)


@given(POPULATION, st.lists(HOPS, min_size=1, max_size=3), st.sampled_from(HOWS))
@settings(max_examples=60, deadline=None)
def test_a_chain_gives_what_sql_joins_give(
    keys: list[str | None], hops: list[Hop], how: How
) -> None:
    if any(key == "" for key in keys) and not any(keys):
        return  # No row is an identifier: an error, which has a test of its own.
    population = pa.table(
        {"key": pa.array(keys, pa.string()), "n": range(len(keys)), "tag": ["t"] * len(keys)}
    )
    sql = duckdb.connect()
    sql.register("population", population)
    with tempfile.TemporaryDirectory() as home, idmatch.open(f"{home}/store") as store:
        for number, hop in enumerate(hops):
            table = store.create_table(f"t{number}", keep=hop.keep)
            table.load(_table(hop.rows))
        first, *others = hops
        then = [{"table": f"t{n}"} | hop.question() for n, hop in enumerate(others, 1)]
        result = store.table("t0").match(
            population,
            column="key",
            carry=["n", "tag as label"],
            how=how,
            then=then,
            with_hops=True,
            **first.question(),
        )
        expected, reached, counts = _joined(sql, hops, how)
        assert sorted(_rows(result), key=str) == sorted(expected, key=str)
        assert len(result) == len(expected)
        assert result.hops == counts
        matched = sum(depth == len(hops) for depth in reached.values())
        assert (result.population, result.matched) == (len(keys), matched)
        assert result.rows == len(expected) - (len(keys) - matched if how == "left" else 0)
        unmatched = _rows(result.unmatched())
    whole = first._replace(since=None, until=None)
    known = {row[0] for row in sql.execute(f"SELECT key FROM ({_answers(0, whole)})").fetchall()}
    assert unmatched == [
        (key, _reason(key, reached[n], known), n, "t")
        for n, key in enumerate(keys)
        if reached[n] < len(hops)
    ]


def _answers(number: int, hop: Hop) -> str:
    """The answers of a table as SQL: key, answer, seen."""
    values = ", ".join(f"('{i}', '{p}', {s})" for i, p, s in hop.rows)
    rows = f"(VALUES {values}) r(id, partner_id, seen)" if values else _NO_ROWS
    kept = "SELECT id, partner_id, max(seen) AS seen" if hop.keep == "last" else "SELECT *"
    group = "GROUP BY id, partner_id" if hop.keep == "last" else ""
    since = 0 if hop.since is None else hop.since
    until = 99 if hop.until is None else hop.until
    return f"""
        SELECT key, answer, seen FROM (
            SELECT {hop.by} AS key, {hop.other} AS answer, max(seen) AS seen
            FROM ({kept} FROM {rows} {group}) k{number}
            WHERE seen >= {since} AND seen < {until} GROUP BY ALL
        ) QUALIFY row_number() OVER (PARTITION BY key ORDER BY seen DESC, encode(answer))
            <= {hop.limit or 99}
    """


_NO_ROWS = "(SELECT '' AS id, '' AS partner_id, 0 AS seen WHERE false) r"


def _joined(
    sql: duckdb.DuckDBPyConnection, hops: list[Hop], how: How
) -> tuple[Rows, dict[int, int], list[idmatch.HopCounts]]:
    """The rows of the result, how many tables each population row came through, and what each
    table counts.
    """
    rows_in = _count(sql, "population")
    reached = dict.fromkeys(range(rows_in), 0)
    joins, columns, before, counts = "", ["p.key"], "p.key", list[idmatch.HopCounts]()
    for number, hop in enumerate(hops):
        known = f"{before} IN (SELECT key FROM ({_answers(number, hop)}))"
        matched = _count(sql, f"population p {joins} WHERE {known}")
        joins += f" JOIN ({_answers(number, hop)}) h{number} ON h{number}.key = {before}"
        before = f"h{number}.answer"
        columns += [before, f"h{number}.seen"]
        found_rows = sql.execute(f"SELECT p.n, count(*) FROM population p {joins} GROUP BY p.n")
        by_row = dict(found_rows.fetchall())
        reached |= dict.fromkeys(by_row, number + 1)
        counts.append(idmatch.HopCounts(rows_in, matched, sum(by_row.values())))
        rows_in = counts[-1].rows
    rows = sql.execute(f"SELECT {', '.join(columns)}, p.n, p.tag FROM population p {joins}")
    found: Rows = rows.fetchall()
    if how == "left":
        for key, n, tag in sql.execute("SELECT key, n, tag FROM population").fetchall():
            if reached[n] < len(hops):
                found.append((key, *[None] * (2 * len(hops)), n, tag))
    return found, reached, counts


def _count(sql: duckdb.DuckDBPyConnection, rows: str) -> int:
    return int(sql.execute(f"SELECT count(*) FROM {rows}").fetchall()[0][0])


def _reason(key: str | None, depth: int, known: set[str]) -> str:
    if key is None:
        return "null"
    if key == "":
        return "empty"
    if depth == 0:
        return "outside the window" if key in known else "not in table"
    return f"lost at hop {depth + 1}"


def _rows(rows: idmatch.Rows) -> Rows:
    table = rows.to_arrow()
    columns = [
        column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column
        for column in table.columns
    ]
    return list(zip(*(column.to_pylist() for column in columns), strict=True))


def _table(rows: list[tuple[str, str, int]]) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else ((), (), ())
    types = [pa.string(), pa.string(), pa.timestamp("ms", "UTC")]
    arrays = [pa.array(list(c), t) for c, t in zip(columns, types, strict=True)]
    return pa.table(dict(zip(("id", "partner_id", "seen_at"), arrays, strict=True)))


def _iso(millis: int | None) -> str | None:
    return None if millis is None else idmatch._core.format_instant(millis)


@pytest.fixture
def store(tmp_path: Any) -> Any:
    """A store whose table crm has pairs of ids and partner IDs, and dsp others of these ids."""
    with idmatch.open(tmp_path / "store") as opened:
        opened.create_table("crm").load(SMALL)
        rows = [("a", "P", NOON), ("b", "Q", NOON), ("b", "R", NOON)]
        opened.create_table("dsp").load(observations(*rows))
        yield opened


def test_many_rows_and_wide_columns_stay_beside_their_matches(tmp_path: Any) -> None:
    # More rows than a chunk has, and more bytes than stay in memory.
    rows = 700_000
    ids = pa.array([f"id{n % 500_000}" for n in range(rows)])
    population = pa.table(
        {
            "key": ids,
            "n": pa.array(range(rows), pa.int64()),
            "wide": pa.array([f"{n:0200d}" for n in range(rows)]),
            "tags": pa.array([[n, n + 1] for n in range(rows)], pa.list_(pa.int64())),
        }
    )
    known = pa.array([f"id{n}" for n in range(0, 500_000, 3)])
    dates = pa.array([NOON] * len(known), pa.timestamp("ms", "UTC"))
    with idmatch.open(tmp_path / "store") as store:
        table = store.create_table("t")
        table.load(pa.table({"id": known, "partner_id": known, "seen_at": dates}))
        result = table.match(population, column="key", carry="all", how="left")
        assert len(result) == rows
        got = result.to_arrow().sort_by("n")
        expected = pa.array(
            [f"id{n % 500_000}" if n % 500_000 % 3 == 0 else None for n in range(rows)]
        )
        carried = population.select(["n", "wide", "tags"])
        assert got.select(carried.column_names).equals(carried)
        assert got.select(["id", "partner_id"]).equals(
            pa.table({"id": ids, "partner_id": expected})
        )
        assert result.unmatched().to_arrow().num_rows == expected.null_count


def test_a_stream_that_is_not_read_on_hinders_no_other(store: idmatch.Store) -> None:
    # More batches than wait for a reader.
    population = pa.table({"id": [f"nobody {n}" for n in range(200_000)]})
    result = store.table("crm").match(population, how="left")
    streams = [pa.RecordBatchReader.from_stream(rows) for rows in (result.unmatched(), result)]
    first = [stream.read_next_batch().num_rows for stream in streams]
    read: list[int] = []
    for rows in (result, result.unmatched()):
        reader = threading.Thread(target=lambda rows=rows: read.append(rows.to_arrow().num_rows))
        reader.daemon = True
        reader.start()
        reader.join(60)
    assert read == [200_000, 200_000]
    rest = [stream.read_all().num_rows for stream in streams]
    assert [one + more for one, more in zip(first, rest, strict=True)] == [200_000, 200_000]


def test_the_last_column_has_a_name_of_its_own(store: idmatch.Store) -> None:
    chain = store.table("crm").match(pa.table({"p": ["x"]}), by="partner_id", then=["dsp"])
    assert chain.to_arrow().column_names == ["partner_id", "partner_id_2", "seen_at"]
    assert set(chain.to_arrow()["partner_id_2"].to_pylist()) == {"P", "Q", "R"}
    assert len(chain) == 3
    assert [(hop.rows_in, hop.matched, hop.rows) for hop in chain.hops] == [(1, 1, 2), (2, 2, 3)]
    back = store.table("crm").match(pa.table({"id": ["a"]}), then=["crm,by=partner-id,pick=latest"])
    assert back.to_arrow().column_names == ["id", "id_2", "seen_at"]


def test_reasons_that_have_no_rows_of_their_own_above(store: idmatch.Store) -> None:
    population = pa.table(
        {"key": ["a", "x" * 1025, b"\xff", b""]}, pa.schema([("key", pa.binary())])
    )
    crm = store.table("crm")
    told = crm.match(population, unmatched=True).unmatched().to_arrow()
    assert told["reason"].to_pylist() == ["too long", "not UTF-8", "empty"]
    crm.erase(id="a")
    later = crm.match(pa.table({"k": ["a", "c"]}), since=NOON, unmatched=True)
    assert later.unmatched().to_arrow()["reason"].to_pylist() == [
        "not in table",
        "outside the window",
    ]
    # A carried column may have that name.
    named = crm.match(pa.table({"k": ["a"], "reason": ["mine"]}), column="k", carry=["reason"])
    assert named.unmatched().to_arrow().column_names == ["id", "reason_2", "reason"]
    both = pa.table({"k": ["a"], "reason": ["mine"], "reason_2": ["mine"]})
    told = crm.match(both, column="k", carry="all").unmatched().to_arrow()
    assert told.to_pylist() == [
        {"id": "a", "reason_3": "not in table", "reason": "mine", "reason_2": "mine"}
    ]


def test_a_match_of_pairs_alone_has_kept_no_unmatched_rows(store: idmatch.Store) -> None:
    with pytest.raises(idmatch.InvalidArgument, match="unmatched=True"):
        store.table("crm").match(pa.table({"id": ["nobody"]})).unmatched()


def test_what_cannot_be_carried_is_told_before_the_match(store: idmatch.Store) -> None:
    crm, population = store.table("crm"), pa.table({"k": ["a"], "id": ["1"], "c": ["2"]})
    for carry, text in (
        ("all", '"id as NAME"'),
        (["id"], '"id as NAME"'),
        (["c as seen_at"], '"seen_at as NAME"'),
        (["missing"], "its columns: k, id, c"),
        (["c", "c"], "two columns"),
        (["all", "c as d"], '"all" stands alone'),
        (["c as "], "no name"),
        ("c", '"all", or a list'),
    ):
        with pytest.raises(idmatch.InvalidArgument, match=text):
            crm.match(population, column="k", carry=carry)
    result = crm.match(population, column="k", carry=["id as own", "k AS again"])
    assert result.to_arrow().column_names == ["id", "partner_id", "seen_at", "own", "again"]


def test_sources_of_a_population_are_carried_alike(store: idmatch.Store) -> None:
    one, crm = pa.table({"k": ["a"], "c": ["1"]}), store.table("crm")
    other = pa.table({"k": ["b"], "c": [1]})
    with pytest.raises(idmatch.InvalidArgument, match=r'"c" of Table 2 is Int64.*Utf8'):
        crm.match([one, other], column="k", carry="all")
    more = one.append_column("d", [["x"]])
    with pytest.raises(idmatch.InvalidArgument, match="'d'"):
        crm.match([one, more], column="k", carry="all")
    assert crm.match([one, more], column="k", carry=["c"]).rows == 4
    empty = crm.match(one.slice(0, 0), column="k", carry="all", how="left", then=["dsp"])
    assert empty.to_arrow().column_names == ["id", "partner_id", "seen_at", "c"]


def test_columns_may_have_chunks_of_their_own(store: idmatch.Store) -> None:
    def cut(*parts: list[str]) -> "pa.ChunkedArray[pa.StringScalar]":
        return pa.chunked_array([pa.array(part, pa.string()) for part in parts])

    rows = pa.table({"id": cut(["u", "v"]), "partner_id": cut(["p"], [], ["q"])})
    crm = store.table("crm")
    assert crm.upsert(rows, dated="2026-03-01").rows == 2
    matched = crm.match(rows, column="id", carry=["partner_id as p"]).to_arrow()
    assert sorted(zip(matched["id"].to_pylist(), matched["p"].to_pylist(), strict=True)) == [
        ("u", "p"),
        ("v", "q"),
    ]


def test_carried_text_must_be_utf_8(store: idmatch.Store) -> None:
    broken = pa.array([b"\xff"], pa.binary()).view(pa.string())
    with pytest.raises(idmatch.SourceError, match="UTF8"):
        store.table("crm").match(pa.table({"k": ["a"], "c": broken}), column="k", carry=["c"])


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"how": "outer"}, "how is 'outer'"),
        ({"limit": 0}, "limit is 0"),
        ({"carry": [1]}, "no text: int"),
        ({"carry": {"c": "d"}}, "carry is"),
        ({"pick": "some"}, "pick is 'some'"),
        ({"by": "email"}, "by is 'email'"),
        ({"then": "dsp"}, "give a list"),
        ({"then": [""]}, "has no name"),
        ({"then": ["dsp,by"]}, "'by' is no question"),
        ({"then": ["dsp,side=id"]}, "key 'side'"),
        ({"then": ["dsp,limit=no"]}, "limit is 'no'"),
        ({"then": ["dsp,by=email"]}, "by is 'email'"),
        ({"then": ["dsp"] * 16}, "1 to 16"),
    ],
)
def test_wrong_questions_are_named(
    store: idmatch.Store, arguments: dict[str, Any], text: str
) -> None:
    with pytest.raises(idmatch.InvalidArgument, match=text):
        store.table("crm").match(pa.table({"id": ["a"]}), **arguments)
    with pytest.raises(idmatch.TableNotFound):
        store.table("crm").match(pa.table({"id": ["a"]}), then=["nowhere"])


def test_a_chain_of_a_snapshot_stays_as_it_was(store: idmatch.Store) -> None:
    population = pa.table({"id": ["a"]})
    with store.snapshot() as snapshot:
        store.table("dsp").erase(id="a")
        assert snapshot.table("dsp").match(population, then=["dsp,by=partner-id"]).rows == 1
    assert store.table("dsp").match(population, then=["dsp,by=partner-id"]).rows == 0
