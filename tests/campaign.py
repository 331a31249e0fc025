"""The example of a campaign, run on a store; every row is held against DuckDB on its files."""

import json
from pathlib import Path
from typing import Any

import duckdb
import idmatch
from example import run_example, store_at

# The newest date of each pair, as a table keeps it.
_TABLES = """
    create view crm as select cookie as id, email as p, max(date::timestamp) as seen
    from read_csv('crm.csv', all_varchar=true) group by all;
    create view dsp as select cookie as id, uid as p, max(date::timestamp) as seen
    from read_csv('dsp.csv', all_varchar=true) group by all;
    create view dsp_latest as select * from dsp
    qualify row_number() over (partition by id order by seen desc, encode(p)) = 1;
    create view population as select email, campaign, note
    from read_csv('population.csv', all_varchar=true);
    create view since_march as select * from crm where seen >= '2026-03-01';
"""
_JOINED = """
    population join since_march c on c.p = email join dsp_latest d on d.id = c.id
"""


def run_and_compare_campaign(store: str, home: Path) -> None:
    """Runs the script in a directory, and compares each of its files."""
    run_example("campaign.sh", store, home)
    with duckdb.connect() as sql, idmatch.open(store_at(store, home)) as opened:
        sql.execute(f"set file_search_path = '{home}'; set timezone = 'UTC'; {_TABLES}")

        def rows(query: str) -> list[tuple[Any, ...]]:
            return sql.execute(query).fetchall()

        assert rows("""
            select partner_id, hop_1_id, hop_1_seen_at::timestamp, partner_id_2,
                seen_at::timestamp, campaign, note
            from read_csv('audience.csv.gz', all_varchar=true) order by all
        """) == rows(
            f"select email, c.id, c.seen, d.p, d.seen, campaign, note from {_JOINED} order by all"
        )
        assert rows("""
            select partner_id, reason, campaign, note
            from read_csv('lost.csv', all_varchar=true) order by all
        """) == rows(f"""
            select email, case when email is null then 'null'
                when email in (select p from since_march) then 'lost at hop 2'
                when email in (select p from crm) then 'outside the window'
                else 'not in table' end, campaign, note
            from population where note not in (select note from {_JOINED}) order by all
        """)
        report = json.loads((home / "match.json").read_text())
        ((population, matched, found),) = rows(f"""
            select (select count(*) from population), count(distinct note), count(*) from {_JOINED}
        """)
        assert (report["population"], report["matched"], report["rows"]) == (
            population,
            matched,
            found,
        )
        first = "population join since_march c on c.p = email"
        ((one, two),) = rows(f"select count(distinct note), count(*) from {first}")
        assert report["hops"][0] == {"rows_in": population, "matched": one, "rows": two}
        assert report["hops"][1] == {"rows_in": two, "matched": found, "rows": found}
        rates = [line.split(",") for line in (home / "rates.csv").read_text().splitlines()]
        assert [(name, int(all), int(some)) for name, all, some in rates] == rows(f"""
            select campaign, count(*), count(*) filter (note in (select note from {_JOINED}))
            from population group by campaign order by campaign
        """)
        parts = sorted((home / "campaigns").rglob("*.parquet"))
        assert {part.parent.name for part in parts} == {"campaign=spring", "campaign=autumn sale"}
        assert (
            max(
                row[0]
                for row in rows("""
            select count(*) from read_parquet('campaigns/*/*', filename=true) group by filename
        """)
            )
            == 500
        )
        assert rows("""
            select partner_id, id, seen_at::timestamp, campaign
            from read_parquet('campaigns/*/*', hive_partitioning=true) order by all
        """) == rows("""
            select email, c.id, c.seen, campaign
            from population join crm c on c.p = email order by all
        """)
        exported = "read_parquet('dsp.export/*/*', hive_partitioning=true)"
        assert rows(f"select id, partner_id, seen_at::timestamp from {exported} order by all") == (
            rows("select * from dsp order by all")
        )
        assert rows(f"select count(*) from {exported} where seen_at_day <> seen_at::date") == [(0,)]
        assert opened.tables() == ["crm", "dsp"]
