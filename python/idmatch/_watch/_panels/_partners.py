"""The dashboard *partners*: tables, one line for each."""

from ._panel import Dashboard, Panel

PARTNERS = Dashboard(
    "partners",
    "idmatch: partners",
    (
        Panel(
            "Match rate",
            "percentunit",
            "Of the last match of each table. About as usual is good. A fall: see "
            "IdmatchMatchRateDropped of the runbook.",
            {"{{table}}": "idmatch:match_rate:ratio"},
        ),
        Panel(
            "Freshness",
            "s",
            "The age of the newest observation of each table. Below the partner's period is "
            "good. A line that climbs beyond it: look at Failed runs, then ask the partner for "
            "files.",
            {"{{table}}": "idmatch:freshness:seconds"},
        ),
        Panel(
            "Rows",
            "short",
            "Observations stored. Level or growing is good. A step down is a replace, a "
            "retention or an erasure: if nobody meant it, restore a backup.",
            {"{{table}}": "idmatch_table_rows"},
        ),
        Panel(
            "Rows of the last day",
            "short",
            "What loads and streams took. About as many as usual is good. 0: the partner has "
            "sent nothing, so ask.",
            {"{{table}}": "idmatch_taken_rows_last_day"},
        ),
        Panel(
            "Rejected rows",
            "percentunit",
            "The share of rows of the last day that broke the rules. 0 is good. More: "
            "STORE.rejects/ says which rows, and why.",
            {"{{table}}": "idmatch:rejected:ratio"},
        ),
        Panel(
            "Failed runs",
            "short",
            "0 is good. 1: the last run of a kind failed; STORE.runs/ has the code of its error.",
            {"{{table}} {{kind}}": "idmatch_run_last_failed"},
        ),
        Panel(
            "Time of the last run",
            "s",
            "About the same each day is good. A load that takes longer each day: its table, or "
            "its files, grow.",
            {"{{table}} {{kind}}": 'idmatch_run_last_duration_seconds{outcome="done"}'},
        ),
        Panel(
            "Skew",
            "short",
            "Rows of the largest key. Tens are good. Thousands: a shared device or a default "
            "cookie; erase it, or match with `--limit`.",
            {"{{table}}": "idmatch_table_largest_key_rows"},
        ),
        Panel(
            "Disk",
            "bytes",
            "Segments of each table. That it grows with Rows is good. Far more than before for "
            "as many rows: run `idmatch compact`.",
            {"{{table}}": "idmatch_table_bytes"},
        ),
    ),
)
