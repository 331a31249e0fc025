"""The dashboard *partners*: tables, one line for each."""

from ._panel import Dashboard, Panel

PARTNERS = Dashboard(
    "partners",
    "idmatch: partners",
    (
        Panel(
            "Match rate",
            "percentunit",
            "Of the last match of each table. Compare a table with its own past.",
            {"{{table}}": "idmatch:match_rate:ratio"},
        ),
        Panel(
            "Freshness",
            "s",
            "The age of the newest observation of each table.",
            {"{{table}}": "idmatch:freshness:seconds"},
        ),
        Panel(
            "Rows",
            "short",
            "Observations stored. A step down is a replace, a retention or an erasure.",
            {"{{table}}": "idmatch_table_rows"},
        ),
        Panel(
            "Rows of the last day",
            "short",
            "What loads and streams took. 0: the partner has sent nothing.",
            {"{{table}}": "idmatch_taken_rows_last_day"},
        ),
        Panel(
            "Rejected rows",
            "percentunit",
            "The share of rows of the last day that broke the rules. STORE.rejects/ says which, "
            "and why.",
            {"{{table}}": "idmatch:rejected:ratio"},
        ),
        Panel(
            "Failed runs",
            "short",
            "1 where the last run of a kind failed; STORE.runs/ has the code of its error.",
            {"{{table}} {{kind}}": "idmatch_run_last_failed"},
        ),
        Panel(
            "Time of the last run",
            "s",
            "A load that takes longer each day: its table, or its files, grow.",
            {"{{table}} {{kind}}": 'idmatch_run_last_duration_seconds{outcome="done"}'},
        ),
        Panel(
            "Skew",
            "short",
            "Rows of the largest key. A shared device or a default cookie has thousands: erase it, "
            "or match with `--limit`.",
            {"{{table}}": "idmatch_table_largest_key_rows"},
        ),
        Panel(
            "Disk",
            "bytes",
            "Segments of each table.",
            {"{{table}}": "idmatch_table_bytes"},
        ),
    ),
)
