"""The dashboard *overview*: what a data team and an operator look at first."""

from ._panel import Dashboard, Panel, quantile, rate

OVERVIEW = Dashboard(
    "overview",
    "idmatch: overview",
    (
        Panel(
            "Calls",
            "ops",
            "Calls that ended, by kind. A kind that stops is a service that stopped.",
            {
                "{{instance}} {{call}}": rate(
                    "idmatch_call_duration_seconds_count", "instance, call"
                )
            },
        ),
        Panel(
            "Time of lookups",
            "s",
            "Microseconds in memory, milliseconds from disk or servers. If it grows, look at page "
            "faults in a directory, and at the nodes of a cluster.",
            {
                f"{{{{instance}}}} p{name}": quantile(
                    value, "idmatch_call_duration_seconds", "instance", '{call="lookup"}'
                )
                for name, value in (("50", 0.5), ("99", 0.99))
            },
        ),
        Panel(
            "Errors",
            "ops",
            "None is good. `corrupt`: verify the store. `io`: look at the disk. `busy`: two "
            "writers. `unknown-outcome`: repeat the write.",
            {
                "{{instance}} {{call}} {{error}}": rate(
                    "idmatch_call_errors_total", "instance, call, error"
                )
            },
        ),
        Panel(
            "Freshness",
            "s",
            "The age of the newest observation, for the ten stalest tables. A line that climbs for "
            "days is a partner whose files do not come.",
            {"{{table}}": "topk(10, idmatch:freshness:seconds)"},
        ),
        Panel(
            "Match rate",
            "percentunit",
            "Of the last match of each table. A sudden fall is a wrong column, a stale table, or "
            "another population.",
            {"{{table}}": "idmatch:match_rate:ratio"},
        ),
        Panel(
            "Runs of the last day",
            "short",
            "Commands and recorded calls. Failed ones are in STORE.runs/ with the code of their "
            "error.",
            {"{{kind}} {{outcome}}": "sum by (kind, outcome) (idmatch_runs_last_day)"},
        ),
        Panel(
            "Free disk",
            "percentunit",
            "A load needs about the disk of its rows twice. Below 10 %, drop tables or "
            "checkpoints, or add disk.",
            {"{{instance}}": "idmatch_store_disk_free_bytes / idmatch_store_disk_bytes"},
        ),
        Panel(
            "Background work that fails",
            "short",
            "0 is good. `idmatch tables` says which work fails, and why.",
            {"{{instance}}": "idmatch_background_work_failing"},
        ),
        Panel(
            "Stores that can be read",
            "short",
            "1 is good. At 0 the store is gone, damaged or of a newer version; the exporter's log "
            "has the code.",
            {"{{instance}}": "idmatch_store_readable"},
        ),
    ),
)
