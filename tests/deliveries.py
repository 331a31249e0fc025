"""The example of deliveries, run on a store; every count is held against DuckDB on its files."""

import json
from pathlib import Path

import duckdb
import idmatch
from example import run_example, store_at

# Rows of each table, as DuckDB reads its file.
READERS = {
    "november": """
        select "Identité" as id, partner as p, strptime("vu le", '%d/%m/%Y')::timestamp as seen_at
        from read_csv('november.csv', delim=';', encoding='latin-1', all_varchar=true)""",
    "dump": """
        select column2 as id, column0 as p,
            to_timestamp(column1::bigint) at time zone 'UTC' as seen_at
        from read_csv('dump.csv.gz', header=false, nullstr='NULL', all_varchar=true)
        where column0 is not null""",
    "events": """
        select cookie as id, unnest(uids)::varchar as p, timestamp '2026-11-03 08:30:00' as seen_at
        from read_json('events.jsonl', columns={cookie: 'varchar', uids: 'bigint[]'})""",
    "full": """
        select id, partner_id as p, timestamp '2026-11-03' as seen_at
        from read_csv('full2.csv', all_varchar=true)""",
    "stream": """
        select id, partner_id as p, seen_at as seen_at
        from read_json('stream.jsonl',
            columns={id: 'varchar', partner_id: 'varchar', seen_at: 'timestamp'})""",
}


def run_and_compare(store: str, home: Path) -> None:
    """Runs the script in a directory, and compares each pair and its newest date."""
    run_example("deliveries.sh", store, home)
    with duckdb.connect() as connection, idmatch.open(store_at(store, home)) as opened:
        connection.execute(f"set file_search_path = '{home}'")
        connection.execute("set timezone = 'UTC'")
        assert opened.tables() == sorted(READERS)
        for name, reader in READERS.items():
            expected = connection.execute(
                f"select id, p, max(seen_at) from ({reader}) group by all order by all"
            ).fetchall()
            assert expected
            table = opened.table(name)
            ids = sorted({id for id, _, _ in expected})
            by_id = dict(zip(ids, table.lookup_many(ids), strict=True))
            got = sorted((id, p, at.replace(tzinfo=None)) for id in ids for p, at in by_id[id])
            assert got == expected, name
            values = sorted({p for _, p, _ in expected})
            back = dict(zip(values, table.lookup_many(values, by="partner_id"), strict=True))
            assert sum(map(len, back.values())) == len(expected), name
        for name, query in (
            ("november", "select count(*), 0 from read_csv('november.csv', encoding='latin-1')"),
            (
                "dump",
                "select count(*), count(*) - count(column0) from read_csv('dump.csv.gz', "
                "header=false, nullstr='NULL')",
            ),
            ("events", "select sum(len(uids)), 0 from read_json('events.jsonl')"),
            ("full1", "select count(*), 0 from 'full1.csv'"),
            ("full2", "select count(*), 0 from 'full2.csv'"),
        ):
            report = json.loads((home / f"{name}.json").read_text())
            counts = connection.execute(query).fetchone()
            assert (report["rows"], report["rejected"]) == counts, name
        acknowledged = [
            json.loads((home / name).read_text().splitlines()[-1])
            for name in ("acknowledged.jsonl", "acknowledged2.jsonl")
        ]
        sent = connection.execute("select count(*) from read_json('stream.jsonl')").fetchone()
        assert (sum(last["through"] for last in acknowledged),) == sent
        assert [last["rows"] for last in acknowledged] == [last["through"] for last in acknowledged]
