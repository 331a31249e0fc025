"""The sample: the same bytes for the same seed, and answers that are exactly its own."""

import hashlib
import json
from pathlib import Path
from typing import Any, Literal

import duckdb
import idmatch
import numpy as np
import pyarrow.parquet as pq
import pytest
from idmatch import _sample
from idmatch._sample import _draws, _ids

PEOPLE = 5000
BY_ALL: list[tuple[str, Literal["ascending", "descending"]]] = [
    (name, "ascending") for name in ("cookie", "partner_id", "seen_at")
]
KINDS = {
    "partner1": r"[1-9][0-9]{18}",
    "partner2": r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}",
    "partner3": r"[A-Za-z0-9_-]{27}",
    "partner4": r"[0-9a-f]{32}",
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a small sample with every kind of ID."""
    home = tmp_path_factory.mktemp("sample")
    _sample.generate(home, PEOPLE, len(KINDS), seed=7)
    return home


@pytest.fixture(scope="module")
def truth(made: Path) -> Any:
    return json.loads((made / "truth.json").read_text())


def digests(home: Path) -> dict[str, str]:
    return {f.name: hashlib.sha256(f.read_bytes()).hexdigest() for f in home.iterdir()}


def test_the_same_seed_gives_the_same_bytes(made: Path, tmp_path: Path) -> None:
    _sample.generate(tmp_path / "same", PEOPLE, len(KINDS), seed=7)
    assert digests(tmp_path / "same") == digests(made)
    _sample.generate(tmp_path / "other", PEOPLE, len(KINDS), seed=8)
    assert not set(digests(tmp_path / "other").values()) & set(digests(made).values())


def test_rows_do_not_depend_on_the_chunks(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_sample, "_PEOPLE_AT_ONCE", 777)
    _sample.generate(tmp_path, PEOPLE, len(KINDS), seed=7)
    for file in made.glob("p*.parquet"):
        # Only the order of a partner's rows goes by chunks.
        ours, theirs = (pq.read_table(f).sort_by(BY_ALL) for f in (tmp_path / file.name, file))
        assert ours.equals(theirs)
    ours = json.loads((tmp_path / "truth.json").read_text())
    theirs = json.loads((made / "truth.json").read_text())
    for partner in KINDS:
        assert ours["partners"][partner]["windows"] == theirs["partners"][partner]["windows"]


def test_ids_are_of_their_kinds(made: Path) -> None:
    for name, pattern in KINDS.items():
        strange = duckdb.execute(
            f"SELECT count(*) FROM '{made}/{name}.parquet' "
            "WHERE NOT regexp_full_match(cookie, '[0-9a-f]{32}') "
            "OR NOT regexp_full_match(partner_id, ?)",
            [pattern],
        )
        assert strange.fetchall() == [(0,)]
    emails = duckdb.execute(
        f"SELECT count(*) FROM '{made}/donors.parquet' WHERE email LIKE '%_@_%._%'"
    )
    assert emails.fetchall() == [(pq.read_metadata(made / "donors.parquet").num_rows,)]


def test_ids_are_different(made: Path) -> None:
    keys = np.arange(100_000, dtype=np.uint64)
    for make in (*_ids.PARTNER_KINDS.values(), _ids.email):
        assert len(make(1, "test", keys).unique()) == len(keys)
    assert (
        len(np.unique(_draws.draw(1, "test", np.arange(1 << 12, dtype=np.uint64), 12))) == 1 << 12
    )


def test_shapes_are_realistic(made: Path, truth: Any) -> None:
    assert 0.55 < truth["crm"]["matched"] / truth["crm"]["population"] < 0.65
    counts = duckdb.execute(f"""
        SELECT max(n), avg(n) FROM (SELECT count(*) AS n FROM '{made}/crm.parquet' GROUP BY email)
    """)
    ((most, mean),) = counts.fetchall()
    assert most > 20
    assert 1.4 < mean < 2
    dates = pq.read_table(made / "partner1.parquet").column("seen_at").to_numpy()
    recent = dates > dates.max() - np.timedelta64(99, "D")
    assert 0.45 < recent.mean() < 0.55


def test_truth_is_what_sql_says(made: Path, truth: Any) -> None:
    for name, partner in truth["partners"].items():
        for window, answers in partner["windows"].items():
            bounds = truth["windows"][window]
            found = duckdb.execute(
                f"""
                WITH cookies AS MATERIALIZED (
                    SELECT row_number() OVER () AS row, cookie
                    FROM '{made}/donors.parquet' JOIN '{made}/crm.parquet' USING (email)
                ), pairs AS (
                    SELECT cookie, partner_id, max(seen_at) AS seen
                    FROM '{made}/{name}.parquet' GROUP BY ALL
                    HAVING seen >= coalesce($1::timestamptz, '1970-01-01')
                       AND seen < coalesce($2::timestamptz, '2999-01-01')
                )
                SELECT (SELECT count(*) FROM cookies), count(DISTINCT row), count(*)
                FROM cookies JOIN pairs USING (cookie)
                """,
                [bounds["since"], bounds["until"]],
            )
            assert found.fetchall() == [tuple(answers.values())], (name, window)


def test_truth_is_what_idmatch_says(made: Path, truth: Any, store: idmatch.Store) -> None:
    crm = store.create_table("crm")
    assert crm.load(made / "crm.parquet", columns=["email"]).rows == truth["rows"]["crm.parquet"]
    cookies = crm.match(made / "donors.parquet")
    assert figures(cookies) == truth["crm"]
    for name, partner in truth["partners"].items():
        table = store.create_table(name)
        report = table.load(made / f"{name}.parquet")
        assert (report.rows, report.rejected) == (partner["observations"], 0)
        for window, answers in partner["windows"].items():
            result = table.match(cookies, column="partner_id", **truth["windows"][window])
            assert figures(result) == answers, (name, window)
        by_id, by_partner_id = partner["lookups"]["id"], partner["lookups"]["partner_id"]
        assert as_json(table.partner_ids(by_id["id"])) == by_id["partner_ids"]
        ids = as_json(table.ids(by_partner_id["partner_id"]))
        assert len(ids) == by_partner_id["count"]
        assert ids[:10] == by_partner_id["newest_ids"]


def figures(result: idmatch.MatchResult) -> dict[str, int]:
    return {"population": result.population, "matched": result.matched, "rows": result.rows}


def as_json(answers: Any) -> list[dict[str, str]]:
    return [
        answer | {"seen_at": f"{answer['seen_at'].isoformat(timespec='milliseconds')[:-6]}Z"}
        for answer in answers.to_pylist()
    ]


@pytest.mark.parametrize(("people", "partners"), [(0, 1), (1, 0), (10**10, 1), (1, 1000)])
def test_sizes_out_of_range(tmp_path: Path, people: int, partners: int) -> None:
    with pytest.raises(idmatch.InvalidArgument, match="a sample has 1 to"):
        _sample.generate(tmp_path, people, partners, seed=1)


def test_the_smallest_sample(tmp_path: Path) -> None:
    for seed in range(20):
        made = _sample.generate(tmp_path / str(seed), 1, 1, seed)
        assert made.rows_by_file["crm.parquet"] >= 1
