"""Populations from files and from Hive, through workers of Dask, into a count of partner IDs.

    python examples/pipeline.py STORE TABLE COLUMN SOURCE [SOURCE ...]

A source is a file, folder or pattern, also of HDFS, or a table of Hive: hive://HOST/DATABASE/TABLE.
The store is a directory or the address of servers.
"""

import argparse

import idmatch.dask
from distributed import Client, LocalCluster


def main() -> None:
    """Counts the partner IDs of each population."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("store", "table", "column"):
        parser.add_argument(name)
    parser.add_argument("sources", nargs="+")
    options = parser.parse_args()
    cluster = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0")
    with cluster, Client(cluster):
        for source in options.sources:
            # Each worker reads files of its own, in this column only.
            population = idmatch.dask.read_source(source, columns=[options.column])
            matched = idmatch.dask.match(
                population, options.store, options.table, column=options.column
            )
            print(f"{len(population):,} people, {matched['partner_id'].count().compute():,} IDs")


if __name__ == "__main__":
    main()
