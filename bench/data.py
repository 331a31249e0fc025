"""Makes the benchmark's data: match rows and a population, the same bytes for the same seed and
size.

Row i is a pure function of (seed, i), worked out from MD5 alone, so it depends neither on the
number of rows nor on the version of any hash function, and the first files of a large set are a
smaller set with the same match rate:

    id          32 hex digits made from key k: k = i for 90 % of rows, an earlier row's key for 10 %
    partner_id  19 decimal digits made from key j: j = i for 95 % of rows, an earlier one for 5 %
    seen_at     milliseconds UTC in the 13 months before 2026-11-01, half in the last quarter

60 % of the population are ids of the first tenth of the rows, 40 % are in no row.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from units import parse_count, show_bytes, show_count, show_seconds

FILES = 40
ROWS_PER_FILE = 10_000_000
ROWS_PER_GROUP = 1_000_000
POPULATION_ROWS = 10_000_000
MATCHING_PERCENT = 60
DEFAULT_DIRECTORY = Path("/var/tmp/idmatch-bench")
DEFAULT_ROWS = 400_000_000
DEFAULT_SEED = 7

_GENERATOR = 1  # raise when the rows of a given seed change, so that old files are made anew
_NEWEST = datetime(2026, 11, 1, tzinfo=UTC)
_OLDEST = datetime(2025, 10, 1, tzinfo=UTC)
_GROUPS_OF_A_POPULATION = 16
_LEAST_ROWS_PER_GROUP = 2048  # DuckDB writes no smaller groups than its vectors
_REPEATED_ID_PERMILLE = 100
_REPEATED_PARTNER_ID_PERMILLE = 50


@dataclass(frozen=True)
class DataSet:
    """Match files and a population that belong together."""

    directory: Path
    seed: int
    rows: int
    rows_per_file: int
    files: tuple[Path, ...]
    population: Path
    population_rows: int

    def first(self, file_count: int) -> DataSet:
        """The data set of the first `file_count` match files, with the same population."""
        rows = min(self.rows, file_count * self.rows_per_file)
        return DataSet(
            self.directory,
            self.seed,
            rows,
            self.rows_per_file,
            self.files[:file_count],
            self.population,
            self.population_rows,
        )

    def parquet_bytes(self) -> int:
        """Bytes of the match files, without the population."""
        return sum(file.stat().st_size for file in self.files)


def prepare(
    directory: Path,
    rows: int,
    seed: int = DEFAULT_SEED,
    workers: int = 2,
    population_rows: int | None = None,
) -> DataSet:
    """Makes the data set under `directory`, or reuses what an earlier call with the same seed and
    rows made.

    A call that was interrupted is taken up again at the first missing file. A population of another
    size than the usual one is a file of its own, and has at most a tenth of the rows.
    """
    if rows < FILES:
        raise ValueError(f"at least {FILES} rows are needed, not {rows}")
    if population_rows and population_rows > rows // 10:
        raise ValueError(f"a population of {population_rows} is more than a tenth of {rows} rows")
    home = directory / f"data-{show_count(rows)}-seed{seed}"
    rows_per_file = min(ROWS_PER_FILE, -(-rows // FILES))
    starts = range(0, rows, rows_per_file)
    data = DataSet(
        directory=home,
        seed=seed,
        rows=rows,
        rows_per_file=rows_per_file,
        files=tuple(home / f"matches-{number:03}.parquet" for number in range(len(starts))),
        population=home
        / (
            f"population-{show_count(population_rows)}.parquet"
            if population_rows
            else "population.parquet"
        ),
        population_rows=population_rows or min(POPULATION_ROWS, rows // FILES),
    )
    _forget_other_data(
        home, {"generator": _GENERATOR, "seed": seed, "rows": rows, "rows_per_file": rows_per_file}
    )

    missing = [
        (file, start) for file, start in zip(data.files, starts, strict=True) if not file.exists()
    ]
    with ThreadPoolExecutor(workers) as pool:
        jobs = [
            pool.submit(_write_matches, file, seed, start, min(start + rows_per_file, rows))
            for file, start in missing
        ]
        for done, job in enumerate(jobs, start=1):
            seconds = job.result()
            if seconds > 1:
                print(
                    f"data: file {done} of {len(missing)} in {show_seconds(seconds)}",
                    file=sys.stderr,
                    flush=True,
                )
    if not data.population.exists():
        seconds = _write_population(data)
        print(f"data: population in {show_seconds(seconds)}", file=sys.stderr, flush=True)
    return data


def prepare_population(data: DataSet, rows: int, matching_percent: int) -> Path:
    """A further population of any size: `matching_percent` are ids of the data, all different; the
    others are in no row.

    It has many row groups, so that readers can share it. It is made when it is not there yet.
    """
    file = data.directory / f"population-{show_count(rows)}-{matching_percent}percent.parquet"
    if not file.exists():
        matching = rows * matching_percent // 100
        _write_parquet(
            file,
            threads=2,
            rows_per_group=max(_LEAST_ROWS_PER_GROUP, rows // _GROUPS_OF_A_POPULATION),
            query=_population(data.seed, data.rows, matching, rows - matching),
        )
        if _parquet_rows(file) != rows:
            file.unlink()
            raise ValueError(
                f"{show_count(data.rows)} rows have too few ids for {show_count(matching)} of a"
                " population"
            )
    return file


def _parquet_rows(file: Path) -> int:
    """The rows of a Parquet file, from its footer."""
    import duckdb

    query = f"SELECT num_rows FROM parquet_file_metadata('{file}')"
    return int(duckdb.execute(query).fetchall()[0][0])


def _forget_other_data(home: Path, description: dict[str, int]) -> None:
    """Empties `home` unless the note in it says that its files are the ones described."""
    note = home / "data.json"
    if note.exists() and json.loads(note.read_text()) == description:
        return
    home.mkdir(parents=True, exist_ok=True)
    for stale in home.glob("*.parquet*"):
        stale.unlink()
    note.write_text(json.dumps(description, indent=2) + "\n")


def _key_of_row(seed: int) -> str:
    """SQL for rows `i` of `source`: `k` and `j`, the keys of the two ids, and `draw`, 64 bits that
    decide all else.
    """
    return f"""
        SELECT i, draw,
            CASE WHEN draw % 1000 < {_REPEATED_ID_PERMILLE}
                THEN (draw >> 16) % (i + 1)::UBIGINT ELSE i END AS k,
            CASE WHEN (draw // 1000) % 1000 < {_REPEATED_PARTNER_ID_PERMILLE}
                THEN (draw >> 7) % (i + 1)::UBIGINT ELSE i END AS j
        FROM (SELECT i, md5_number_lower('{seed}:row:' || i) AS draw FROM source)
    """


def _write_matches(file: Path, seed: int, start: int, stop: int) -> float:
    """Writes rows start to stop on one thread, which keeps their order and so the bytes; returns
    the seconds.
    """
    newest, oldest = (int(moment.timestamp() * 1000) for moment in (_NEWEST, _OLDEST))
    span = newest - oldest - 1
    return _write_parquet(
        file,
        threads=1,
        query=f"""
        WITH source AS (SELECT range AS i FROM range({start}, {stop})),
        keyed AS ({_key_of_row(seed)})
        SELECT
            md5('{seed}:id:' || k) AS id,
            (1000000000000000000::UBIGINT + md5_number_lower('{seed}:partner_id:' || j)
                % 9000000000000000000::UBIGINT)::VARCHAR AS partner_id,
            make_timestamp_ms(
                {newest - 1} - ({span} * pow((draw >> 32) / 4294967296.0, 2))::BIGINT
            )::TIMESTAMP_MS AS seen_at
        FROM keyed
    """,
    )


def _write_population(data: DataSet) -> float:
    """Writes the shuffled population; ids are distinct because only rows with k = i are drawn.
    Returns the seconds.
    """
    matching = data.population_rows * MATCHING_PERCENT // 100
    query = _population(data.seed, data.rows // 10, matching, data.population_rows - matching)
    return _write_parquet(data.population, threads=2, query=query)


def _population(seed: int, among_rows: int, matching: int, unknown: int) -> str:
    """SQL for `matching` ids of the first rows, and `unknown` ids that are in no row."""
    return f"""
        WITH source AS (SELECT range AS i FROM range(0, {among_rows})),
        keyed AS ({_key_of_row(seed)}),
        known AS (
            SELECT md5('{seed}:id:' || i) AS id FROM keyed WHERE k = i
            ORDER BY md5_number_lower('{seed}:population:' || i), i LIMIT {matching}
        ),
        unknown AS (SELECT md5('{seed}:unknown:' || range) AS id FROM range({unknown}))
        SELECT id FROM (FROM known UNION ALL FROM unknown) ORDER BY md5('shuffle' || id)
    """


def _write_parquet(
    file: Path, threads: int, query: str, rows_per_group: int = ROWS_PER_GROUP
) -> float:
    """Writes the query's rows to `file`, which appears only when it is whole; returns the
    seconds.
    """
    import duckdb  # here, so that a system that is not DuckDB does not load it

    began = time.perf_counter()
    partial = file.with_suffix(".parquet.partial")
    settings: dict[str, Any] = {
        "threads": threads,
        "memory_limit": "6GB",
        "temp_directory": str(file.parent / "spill"),
    }
    with duckdb.connect(config=settings) as connection:
        connection.execute(f"""
            COPY ({query}) TO '{partial}'
            (FORMAT parquet, COMPRESSION snappy, ROW_GROUP_SIZE {rows_per_group})
        """)
    partial.rename(file)
    return time.perf_counter() - began


def main() -> None:
    """Makes the data and says how large it is."""
    parser = argparse.ArgumentParser(description="Make the benchmark's data set.")
    parser.add_argument("--rows", type=parse_count, default=DEFAULT_ROWS)
    parser.add_argument("--dir", type=Path, default=DEFAULT_DIRECTORY)
    parser.add_argument("--seed", type=int, default=DEFAULT_SEED)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    began = time.perf_counter()
    data = prepare(options.dir, options.rows, options.seed, options.workers)
    print(
        f"{data.directory}: {len(data.files)} files of {show_count(data.rows_per_file)} rows,"
        f" {show_bytes(data.parquet_bytes())}; population of {show_count(data.population_rows)}"
        f" rows, {show_bytes(data.population.stat().st_size)};"
        f" {show_seconds(time.perf_counter() - began)}"
    )


if __name__ == "__main__":
    main()
