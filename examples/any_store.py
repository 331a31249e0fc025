"""The same code on a directory and on servers: only the address differs.

The servers come from `IDMATCH_EXAMPLE_CQL`, such as cql://127.0.0.1/example?replication=1
(`idmatch lab up` starts a node). Without it they are skipped.
"""

import argparse
import os
import tempfile
from pathlib import Path

import idmatch
import pyarrow as pa

_VARIABLE = "IDMATCH_EXAMPLE_CQL"


def main() -> None:
    """Runs the same steps on both stores and compares what they answer."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--small", action="store_true", help="use little data")
    rows = 1_000 if options.parse_args().small else 100_000
    with tempfile.TemporaryDirectory() as folder:
        here = steps(str(Path(folder, "store")), rows)
    print(f"directory: {here}")
    servers = os.environ.get(_VARIABLE)
    if not servers:
        print(f"servers: skipped, because {_VARIABLE} names no address")
        return
    there = steps(servers, rows)
    print(f"servers: {there}")
    assert here == there


def steps(address: str, rows: int) -> dict[str, object]:
    """Loads, upserts, erases and matches; what the answers are."""
    with idmatch.open(address) as store:
        table = store.create_table("example", keep="last")
        numbers = range(rows)
        table.load(
            pa.table(
                {
                    "id": [f"person{number}" for number in numbers],
                    "partner_id": [f"device{number}" for number in numbers],
                    "seen_at": ["2026-10-01"] * rows,
                }
            ),
            columns=("id", "partner_id", "seen_at"),
        )
        table.upsert_one("person0", "phone", "2026-11-01")
        table.erase(id="person1", at="2026-11-15")
        population = pa.table({"id": [f"person{number}" for number in range(0, rows, 2)]})
        latest = table.latest_partner_id("person0")
        return {
            "latest": latest and latest.value,
            "erased": table.latest_partner_id("person1"),
            "matched": table.match(population).matched,
        }


if __name__ == "__main__":
    main()
