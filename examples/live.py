"""Live traffic: threads upsert and look up while a match of many identifiers runs."""

import argparse
import tempfile
import threading
from pathlib import Path

import idmatch
import pyarrow as pa


def main() -> None:
    """Runs writers, readers and a match side by side on one table."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--small", action="store_true", help="use little data")
    rows = 20_000 if options.parse_args().small else 2_000_000
    with tempfile.TemporaryDirectory() as folder, idmatch.open(Path(folder, "store")) as store:
        table = store.create_table("visits")
        numbers = range(rows)
        known = [f"cookie{number}" for number in numbers]
        table.load(
            pa.table(
                {
                    "cookie": known,
                    "uid": [str(number) for number in numbers],
                    "date": ["2026-01-01"] * rows,
                }
            ),
            columns=("cookie", "uid", "date"),
        )
        run(table, known)


def run(table: idmatch.Table, known: list[str]) -> None:
    """A match reads one version of the table, whatever is written meanwhile."""
    stop = threading.Event()
    counts = {"upserts": 0, "lookups": 0}

    def write() -> None:
        while not stop.is_set():
            number = counts["upserts"]
            cookie = known[number % len(known)]
            table.upsert_one(cookie, f"new{number}")
            # Visible at once, in both directions.
            assert table.latest_id(f"new{number}") is not None
            counts["upserts"] += 1

    def read() -> None:
        while not stop.is_set():
            assert table.latest_partner_id(known[counts["lookups"] % len(known)]) is not None
            counts["lookups"] += 1

    threads = [threading.Thread(target=work) for work in (write, read)]
    for thread in threads:
        thread.start()
    try:
        result = table.match(pa.table({"cookie": known}))
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    print(f"matched {result.matched:,} of {result.population:,} in {result.seconds:.2f} s")
    print(f"meanwhile {counts['upserts']:,} upserts and {counts['lookups']:,} lookups")


if __name__ == "__main__":
    main()
