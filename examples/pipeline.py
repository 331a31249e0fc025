"""Populations from files and from Hive, through workers of Dask, into a count of partner IDs.

    python examples/pipeline.py [--small]                                  made-up data
    python examples/pipeline.py STORE TABLE COLUMN SOURCE [SOURCE ...]

A source is a file, folder or pattern, also of HDFS, or a table of Hive: hive://HOST/DATABASE/TABLE.
The store is a directory or the address of servers.
"""

import argparse
import tempfile
from pathlib import Path

import idmatch.dask
from distributed import Client, LocalCluster
from idmatch._sample import generate


def main() -> None:
    """Counts the partner IDs of each population."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--small", action="store_true", help="use little data")
    parser.add_argument("place", nargs="*", help="STORE TABLE COLUMN SOURCE ...")
    options = parser.parse_args()
    if options.place:
        store, table, column, *sources = options.place
        run(store, table, column, sources)
        return
    with tempfile.TemporaryDirectory() as folder:
        data, place = Path(folder, "people"), Path(folder, "store")
        generate(str(data), 2_000 if options.small else 200_000, 2, 7)
        with idmatch.open(place) as made:
            made.create_table("crm").load(
                data / "crm.parquet", columns={"id": "email", "partner_id": "cookie"}
            )
        run(str(place), "crm", "email", [str(data / "donors.parquet")])


def run(store: str, table: str, column: str, sources: list[str]) -> None:
    """Matches each source with a table."""
    cluster = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0")
    with cluster, Client(cluster):
        for source in sources:
            # Each worker reads files of its own, in this column only.
            population = idmatch.dask.read_source(source, columns=[column])
            matched = idmatch.dask.match(population, store, table, column=column)
            print(f"{len(population):,} people, {matched['partner_id'].count().compute():,} IDs")


if __name__ == "__main__":
    main()
