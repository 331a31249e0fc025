"""Dask: frames matched, and tables read, by threads, processes and a cluster's workers.

Expected rows are merges by pandas.
"""

import os
import pickle
import shutil
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import dask
import dask.dataframe as dd
import idmatch
import idmatch.dask
import pandas as pd
import pyarrow as pa
import pytest
from conftest import DAY, NOON
from dask_jobs import OBSERVED, POPULATION, die_once, merged, population, rows
from distributed import Client
from idmatch._places import place_of

pytest_plugins = ["dask_fixtures"]


@pytest.mark.usefixtures("scheduler")
def test_a_match_is_a_merge(observed: idmatch.Table, store: idmatch.Store) -> None:
    found = idmatch.dask.match(
        population(), store, "t", column="cookie", carry=["score", "label as text"]
    )
    result = found.compute()
    assert list(result.columns) == ["id", "partner_id", "seen_at", "score", "text"]
    assert result.dtypes.to_dict() == found.dtypes.to_dict() == found._meta.dtypes.to_dict()
    wanted = merged().rename(columns={"label": "text"})
    wanted["seen_at"] = wanted["seen_at"].dt.as_unit("ms")
    # An id that is there twice is matched twice: its rows carry different columns.
    assert rows(result) == rows(wanted, *result.columns)
    assert len(result) == 152


@pytest.mark.usefixtures("on_threads")
def test_a_match_takes_the_arguments_of_the_table(
    observed: idmatch.Table, store: idmatch.Store
) -> None:
    store.create_table("u").load(
        pa.table(
            {"id": [f"i{n}" for n in range(120)], "partner_id": [f"q{n}" for n in range(120)]}
        ),
        dated=NOON,
    )
    whole = pa.table(population().compute())
    arguments: dict[str, Any]
    for arguments in (
        {"pick": "latest", "how": "left", "carry": ["score"]},
        {"pick": "latest", "since": NOON - 400 * DAY, "until": NOON - 100 * DAY},
        {"limit": 1, "carry": "all"},
        {"then": ["u,pick=latest,since=3650d"], "with_hops": True, "how": "left"},
    ):
        direct = observed.match(whole, column="cookie", **arguments).to_pandas()
        found = idmatch.dask.match(population(), store, "t", column="cookie", **arguments)
        assert rows(found.compute()) == rows(direct), arguments
        assert list(found.columns) == list(direct.columns)
    back = dd.from_pandas(OBSERVED[["partner_id"]], npartitions=3)
    found = idmatch.dask.match(back, store, "t", by="partner_id")
    assert rows(found.compute(), "id", "partner_id") == rows(OBSERVED, "id", "partner_id")


@pytest.mark.usefixtures("on_threads")
def test_a_partition_without_any_identifier_has_no_matches(
    observed: idmatch.Table, store: idmatch.Store
) -> None:
    """Rows that are malformed, in a partition of their own."""
    long = "x" * 5_000
    people = pd.DataFrame({"cookie": ["i1", "i2", long, ""], "n": [1, 2, 3, 4]})
    frame = dd.from_pandas(people, npartitions=2)
    found = idmatch.dask.match(frame, store, "t", column="cookie", carry=["n"])
    assert sorted(found["n"].compute()) == [1, 1, 2, 2]
    kept = idmatch.dask.match(frame, store, "t", column="cookie", carry="all", how="left")
    assert sorted(kept["n"].compute()) == [1, 1, 2, 2, 3, 4]


@pytest.mark.usefixtures("on_threads")
def test_a_result_has_no_index_of_the_population(
    observed: idmatch.Table, store: idmatch.Store
) -> None:
    """Its rows would be looked for in partitions that do not have them."""
    found = idmatch.dask.match(population(), store, "t", column="cookie")
    assert population().known_divisions
    assert not found.known_divisions
    assert len(found.repartition(npartitions=20)) == 152


@pytest.mark.usefixtures("on_threads")
@pytest.mark.parametrize("kind", ["Int64", "int64[pyarrow]"])
def test_carried_integers_are_not_rounded(
    observed: idmatch.Table, store: idmatch.Store, kind: str
) -> None:
    large = 2**53 + 1
    people = pd.DataFrame({"cookie": ["i250", "i251"], "n": pd.array([large, None], "Int64")})
    frame = dd.from_pandas(people.astype({"n": kind}), npartitions=1)
    found = idmatch.dask.match(frame, store, "t", column="cookie", carry=["n"]).compute()
    assert found["n"].dtype == people.astype({"n": kind})["n"].dtype
    assert [int(n) for n in found["n"] if not pd.isna(n)] == [large]


@pytest.mark.usefixtures("scheduler")
def test_a_checkpoint_that_goes_between_two_runs_is_said(
    observed: idmatch.Table, store: idmatch.Store
) -> None:
    """Also by workers that have it open."""
    found = idmatch.dask.match(population(), store, "t", column="cookie")
    assert len(found) == 152
    store.remove_checkpoint(store.checkpoints()[0])
    with pytest.raises(idmatch.Expired, match="no longer in the store"):
        found.compute()


def test_what_does_not_fit_is_refused_at_once(
    observed: idmatch.Table, store: idmatch.Store
) -> None:
    match = idmatch.dask.match
    arguments: dict[str, Any]
    for named, arguments in (
        ("several columns for id", {}),
        ("'nothing'", {"column": "nothing"}),
        ("'nothing' to carry", {"column": "cookie", "carry": ["nothing"]}),
        ("pick is", {"column": "cookie", "pick": "any"}),
        ("how is", {"column": "cookie", "how": "outer"}),
    ):
        with pytest.raises(idmatch.InvalidArgument, match=named):
            match(
                population().rename(columns={"score": "email", "label": "userid"})
                if not arguments
                else population(),
                store,
                "t",
                **arguments,
            )
    with pytest.raises(idmatch.TableNotFound):
        match(population(), store, "other", column="cookie")
    with pytest.raises(idmatch.InvalidArgument, match=r"pandas\..*DataFrame is no dask"):
        match(POPULATION, store, "t", column="cookie")
    with pytest.raises(idmatch.InvalidArgument, match="frame"):
        idmatch.dask.load(POPULATION, store, "t")
    numbered = dd.from_pandas(pd.DataFrame([["i1", "x"]]), npartitions=1)
    with pytest.raises(idmatch.InvalidArgument, match="column 0 has a name that is no text"):
        match(numbered, store, "t", column="0")
    with (
        idmatch.open(store.path, read_only=True) as reader,
        pytest.raises(idmatch.Unsupported, match="reading only"),
    ):
        idmatch.dask.load(dd.from_pandas(OBSERVED, npartitions=1), reader, "t")
    with pytest.raises(idmatch.NotAStore):
        match(population(), store.path + "-not", "t", column="cookie")
    with pytest.raises(idmatch.TableNotFound):
        idmatch.dask.read(store, "other")
    with pytest.raises(idmatch.InvalidArgument):
        idmatch.dask.read(store, "t", since=NOON, until=NOON - DAY)
    assert not store.checkpoints() or len(store.checkpoints()) == 1


@pytest.mark.usefixtures("on_threads")
def test_of_a_population_only_the_columns_needed_are_read(
    observed: idmatch.Table, store: idmatch.Store
) -> None:
    asked: list[list[str] | None] = []

    def part(number: int, columns: list[str] | None = None) -> pd.DataFrame:
        asked.append(columns)
        frame = POPULATION.drop(columns="unused").iloc[number::3]
        return frame if columns is None else frame[columns]

    read = dd.from_map(part, range(3), meta=POPULATION.drop(columns="unused").iloc[:0])
    found = idmatch.dask.match(read, store, "t", column="cookie", carry=["score"])
    assert len(found) == 152
    assert asked == [["cookie", "score"]] * 3


@pytest.mark.usefixtures("scheduler")
def test_a_job_sees_the_version_of_its_call(observed: idmatch.Table, store: idmatch.Store) -> None:
    found = idmatch.dask.match(population(), store, "t", column="cookie")
    all_rows = idmatch.dask.read(store, "t", partitions=3)
    with store.table("t").begin(replace=True) as session:
        session.add(pa.table({"id": ["i100"], "partner_id": ["new"], "seen_at": [NOON]}))
    assert len(found) == 152
    assert rows(all_rows.compute(), "id", "partner_id") == rows(OBSERVED, "id", "partner_id")
    again = idmatch.dask.match(population(), store.path, "t", column="cookie")
    assert rows(again.compute(), "partner_id") == [("new",), ("new",)]


@pytest.mark.usefixtures("scheduler")
def test_a_checkpoint_that_is_gone_is_said(observed: idmatch.Table, store: idmatch.Store) -> None:
    found = idmatch.dask.match(population(), store, "t", column="cookie", keep="1h")
    (checkpoint,) = store.checkpoints()
    assert checkpoint.until - checkpoint.at < timedelta(hours=2), "not the 24 h of others"
    store.remove_checkpoint(checkpoint)
    with pytest.raises(idmatch.Expired, match="no longer in the store"):
        found.compute()


@pytest.mark.usefixtures("scheduler")
def test_a_checkpoint_elsewhere_is_known(
    observed: idmatch.Table, store: idmatch.Store, tmp_path: Path
) -> None:
    """Neither what is at its path later is read, nor is it taken for a host's missing directory."""
    observed.upsert_one("i100", "late")
    mine = tmp_path / "mine"
    store.checkpoint(mine)
    found = idmatch.dask.match(population(), mine, "t", column="cookie")
    # The population has this id twice.
    assert len(found) == 152 + 2
    shutil.rmtree(mine)
    with pytest.raises(idmatch.Expired, match="is no longer there"):
        found.compute()
    with idmatch.open(mine) as other:
        other.create_table("t").load(OBSERVED)
        with pytest.raises(idmatch.Expired, match="another store is in its place"):
            found.compute()


def test_a_host_without_the_directory_says_so(
    observed: idmatch.Table, store: idmatch.Store, client: Client
) -> None:
    found = idmatch.dask.match(population(), store, "t", column="cookie")
    os.rename(store.path, store.path + "-elsewhere")
    with client.as_current(), pytest.raises(idmatch.NotAStore, match="sees no store at"):
        found.compute()


@pytest.mark.usefixtures("scheduler")
def test_a_table_is_read_in_shares(observed: idmatch.Table, store: idmatch.Store) -> None:
    whole = idmatch.dask.read(store, "t", partitions=7)
    assert whole.npartitions == 7
    result = whole.compute()
    wanted = OBSERVED.assign(seen_at=OBSERVED["seen_at"].dt.as_unit("ms"))
    assert rows(result) == rows(wanted)
    assert result.dtypes.to_dict() == whole._meta.dtypes.to_dict()
    assert len(whole) == len(wanted)
    # A projection, and a window.
    since, until = NOON - 20 * DAY, NOON - 10 * DAY
    some = idmatch.dask.read(store, "t", columns=["partner_id"], since=since, until=until)
    inside = wanted[(wanted["seen_at"] >= since) & (wanted["seen_at"] < until)]
    assert rows(some.compute()) == rows(inside, "partner_id")
    assert whole["id"].nunique().compute() == 300
    (source,) = (
        step
        for step in whole[["id"]].optimize(fuse=False).expr.walk()
        if type(step).__name__.startswith("FromMap")
    )
    assert source.columns == ["id"]


def test_the_scheduler_names_what_tasks_do(
    observed: idmatch.Table, store: idmatch.Store, client: Client
) -> None:
    with client.as_current():
        idmatch.dask.match(population(), store, "t", column="cookie").compute()
        idmatch.dask.read(store, "t", partitions=2)["id"].str.upper().compute()
        idmatch.dask.load(dd.from_pandas(OBSERVED, npartitions=2), store, "t")

    def prefixes(dask_scheduler: Any) -> list[str]:
        return list(dask_scheduler.task_prefixes)

    # A task that does several things has the names of all, with hyphens between them.
    names = {name for one in client.run_on_scheduler(prefixes) for name in one.split("-")}
    assert names >= {"idmatch_match", "idmatch_read", "idmatch_load"}


def test_a_worker_that_dies_matches_again(
    observed: idmatch.Table, store: idmatch.Store, client: Client, tmp_path: Path
) -> None:
    frame = dd.from_pandas(OBSERVED[["partner_id"]], npartitions=8)
    frame = frame.map_partitions(die_once, str(tmp_path / "mark"), meta=frame._meta)
    found = idmatch.dask.match(frame, store, "t", by="partner_id")
    with client.as_current():
        assert rows(found.compute(), "id", "partner_id") == rows(OBSERVED, "id", "partner_id")
    assert (tmp_path / "mark").exists()


def test_a_place_shows_no_secret() -> None:
    """Workers log the arguments of a task that failed."""
    place = place_of("cql://me:secret@localhost/k?tls=/private")
    assert "secret" not in f"{place} {place!r} {[place]}"
    assert "private" not in repr(place)
    assert pickle.loads(pickle.dumps(place)) == place


def test_without_dask_the_extra_is_named() -> None:
    program = "import sys; sys.modules['dask'] = None; import idmatch.dask"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "MissingExtra" in ran.stderr
    assert "install idmatch with its extra 'dask'" in ran.stderr


@pytest.mark.usefixtures("scheduler")
def test_servers_answer_alike(address: str) -> None:
    with idmatch.open(address) as store:
        table = store.create_table("t", expected_rows=64_000)
        frame = dd.from_pandas(OBSERVED, npartitions=4)
        assert idmatch.dask.load(frame, store, "t").rows == 500
        assert rows(pa.table(table.scan()).to_pandas(), "id", "partner_id") == rows(
            OBSERVED, "id", "partner_id"
        )
        wanted = rows(merged(), "id", "partner_id", "score")
        for repartition in (None, False):
            found = idmatch.dask.match(
                population(),
                address,
                "t",
                column="cookie",
                carry=["score"],
                repartition=repartition,
            )
            assert rows(found.compute(), "id", "partner_id", "score") == wanted
        numbers = pd.DataFrame({"id": range(40), "n": range(40)})
        table.load(pa.table({"id": range(20), "partner_id": ["x"] * 20}), dated=NOON)
        found = idmatch.dask.match(dd.from_pandas(numbers, npartitions=3), address, "t")
        assert len(found) == 20
        with pytest.raises(idmatch.Unsupported, match="max_rejects"):
            idmatch.dask.load(frame, store, "t", max_rejects=0)
        whole = idmatch.dask.read(store, "t", partitions=3)
        assert len(whole) == 520


def test_each_task_asks_for_parts_of_its_own(address: str) -> None:
    with idmatch.open(address) as store:
        table = store.create_table("t", expected_rows=64_000)
        found = idmatch.dask.match(population(), store, "t", column="cookie", how="left")
        with dask.config.set(scheduler="threads"):
            parts = [
                set(table.partition_of(list(one["id"].dropna())).to_pylist())
                for one in dask.compute(*found.to_delayed())
            ]
    assert sum(map(len, parts)) == len(set().union(*parts)) > 10


@pytest.mark.usefixtures("scheduler")
def test_sources_are_frames(tmp_path: Path) -> None:
    """Files are partitions, read in the columns that are asked for; what is no file is held."""
    first = pd.DataFrame({"id": ["a", None], "n": [2**60 + 1, 2], "day": [NOON, NOON]})
    second = first.assign(id=["ä", "b"])
    first.to_parquet(tmp_path / "1.parquet")
    second.to_parquet(tmp_path / "2.parquet")
    frame = idmatch.dask.read_source(tmp_path / "*.parquet")
    assert frame.npartitions == 2
    assert str(frame.dtypes["id"]) == "string"
    both = pd.concat([first, second])
    assert frame["n"].compute().tolist() == both["n"].tolist()
    assert frame["id"].compute().fillna("").tolist() == both["id"].fillna("").tolist()
    held = idmatch.dask.read_source(pa.Table.from_pandas(first), columns=["n", "id"])
    assert held.compute()["n"].tolist() == first["n"].tolist()
    mixed = idmatch.dask.read_source([tmp_path / "1.parquet", pa.Table.from_pandas(second)])
    assert sorted(mixed["n"].compute()) == sorted(both["n"])
    with pytest.raises(idmatch.SourceError):
        idmatch.dask.read_source(tmp_path / "none.parquet")
    second.assign(n="text").to_parquet(tmp_path / "2.parquet")
    with pytest.raises((idmatch.SourceError, pa.ArrowInvalid)):
        frame["n"].compute()
