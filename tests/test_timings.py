"""Where the time of a match went: its parts add up, and the sentence names the largest."""

import hashlib
import time
from collections.abc import Sequence
from pathlib import Path

import idmatch
import pyarrow as pa
import pytest
from conftest import NOON, SMALL, Cli
from idmatch._timings import timings_of, verdict

STAGES = idmatch.Timings._fields
SERVERS = idmatch.Requests(100, 100, 0, 10, 10, 64, False)


def test_parts_add_up_to_the_time_of_match_and_reads(table: idmatch.Table) -> None:
    """Reading the rows adds decoding and writing; nothing is carried without a wish for it."""
    result = table.match(SMALL.select(["id"]))
    before = result.timings
    assert sum(before) == pytest.approx(result.seconds)
    assert before.population > 0
    assert before.probing > 0
    assert (before.decoding, before.writing, before.carrying) == (0, 0, 0)
    result.to_arrow()
    after = result.timings
    assert sum(after) == pytest.approx(result.seconds)
    assert sum(after) > sum(before) > 0
    assert after.decoding > 0
    assert after.writing > 0
    assert after.carrying == 0
    assert result.requests is None


def test_carried_columns_and_chains_take_time_of_their_own(table: idmatch.Table) -> None:
    """`carrying` is what they cost."""
    assert table.match(SMALL, column="id", carry=["seen_at as on"]).timings.carrying > 0
    assert table.match(SMALL.select(["id"]), then=["small"]).timings.carrying > 0


def test_the_files_of_a_folder_are_in_them(store: idmatch.Store, tmp_path: Path) -> None:
    """Rows are divided first: their files take most of the time."""
    ids = pa.array([f"i{number:06}" for number in range(50_000)])
    dates = pa.array([NOON] * len(ids), pa.timestamp("ms", "UTC"))
    table = store.create_table("many")
    table.load(pa.table({"id": ids, "partner_id": ids, "seen_at": dates}))
    population = pa.table(
        {"id": ids, "wide": pa.array([_wide(number) for number in range(len(ids))])}
    )
    result = table.match(population, carry=["wide"], column="id")
    before, cpu = result.timings, time.process_time()
    result.write(tmp_path / "out", format="csv.gz", max_rows_per_file=20_000)
    cpu = time.process_time() - cpu
    after = result.timings
    assert sum(after) == pytest.approx(result.seconds)
    # One thread writes them, with most of the processors' time.
    assert sum(after) - sum(before) > cpu / 2
    assert after.writing - before.writing > after.carrying - before.carrying


def _wide(number: int) -> str:
    return hashlib.sha256(b"%d" % number).hexdigest() * 2


def test_the_command_line_prints_them(loaded: Cli) -> None:
    """In JSON they add up to `seconds`; -v has a line for each part, and the sentence last."""
    (loaded.home / "population.csv").write_text("id\na\nb\n")
    match = ["match", "store", "small", "population.csv"]
    said = loaded(*match, "--json").json()
    assert tuple(said["timings"]) == STAGES
    assert sum(said["timings"].values()) == pytest.approx(said["seconds"], abs=1e-3)
    assert said["verdict"].endswith(".")
    assert "requests" not in said
    lines = loaded(*match, "-v").out.splitlines()
    assert [line.split()[0] for line in lines[-7:-1]] == list(STAGES)
    assert lines[-1].endswith(".")
    assert "probing" not in loaded(*match).out


@pytest.mark.parametrize(
    ("times", "requests", "said"),
    [
        ([6, 1, 1, 1, 0, 1], None, "Reading the population takes 60% "),
        ([1, 6, 1, 1, 0, 1], None, "The disk takes 60% "),
        ([1, 1, 3, 4, 0, 1], None, "processors take 70% of the time, most of it for probing"),
        ([1, 1, 1, 1, 5, 1], None, "most of it for carrying columns"),
        ([1, 1, 1, 1, 1, 5], None, "Writing the rows takes 50% "),
        ([1, 8, 1, 0, 0, 0], SERVERS, "servers takes 80% of the time: more nodes"),
        ([1, 8, 1, 0, 0, 0], SERVERS._replace(in_flight=8), "a higher in_flight"),
        ([1, 8, 1, 0, 0, 0], SERVERS._replace(is_rate_limited=True), "max_requests_per_second"),
        ([1, 8, 1, 0, 0, 0], SERVERS._replace(repeated=20), "repeat many requests"),
        ([0, 0, 0, 0, 0, 0], None, "Nothing took any time."),
    ],
)
def test_the_sentence_names_what_limits(
    times: Sequence[float], requests: idmatch.Requests | None, said: str
) -> None:
    """The largest of population, waiting, processors and writing."""
    assert said in verdict(timings_of(times, 2.5), requests)


def test_an_empty_population_has_timings(table: idmatch.Table) -> None:
    """And a sentence."""
    result = table.match(pa.table({"id": pa.array([], pa.string())}))
    assert sum(result.timings) >= 0
    assert result.verdict.endswith(".")
