"""The dashboard *overview*: what a data team and an operator look at first."""

from ._panel import Dashboard, Panel, quantile, rate

OVERVIEW = Dashboard(
    "overview",
    "idmatch: overview",
    (
        Panel(
            "Calls",
            "ops",
            "Calls that ended, by kind. About as many as usual is good. A kind that stops: look "
            "whether its service runs.",
            {
                "{{instance}} {{call}}": rate(
                    "idmatch_call_duration_seconds_count", "instance, call"
                )
            },
        ),
        Panel(
            "Time of lookups",
            "s",
            "Microseconds from memory, and milliseconds from disk or servers, are good. If it "
            "grows: look at Major page faults in a directory, and at Latency by node of a "
            "cluster.",
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
            "None is good. `corrupt`: verify the store. `io`: look at the disk. `busy`: end one "
            "of two writers. `unknown-outcome`: repeat the write.",
            {
                "{{instance}} {{call}} {{error}}": rate(
                    "idmatch_call_errors_total", "instance, call, error"
                )
            },
        ),
        Panel(
            "Freshness",
            "s",
            "The age of the newest observation, for the ten stalest tables. Below the partner's "
            "period is good. A line that climbs for days: its files do not come, so ask the "
            "partner.",
            {"{{table}}": "topk(10, idmatch:freshness:seconds)"},
        ),
        Panel(
            "Match rate",
            "percentunit",
            "Of the last match of each table. About as usual is good. A sudden fall: look for a "
            "wrong column, a stale table, or another population.",
            {"{{table}}": "idmatch:match_rate:ratio"},
        ),
        Panel(
            "Runs of the last day",
            "short",
            "Commands and recorded calls. No failed one is good. Failed ones: STORE.runs/ has "
            "the code of their error.",
            {"{{kind}} {{outcome}}": "sum by (kind, outcome) (idmatch_runs_last_day)"},
        ),
        Panel(
            "Free disk",
            "percentunit",
            "A load needs about the disk of its rows twice. Over 10 % is good. Below: drop "
            "tables or checkpoints, or add disk.",
            {"{{instance}}": "idmatch_store_disk_free_bytes / idmatch_store_disk_bytes"},
        ),
        Panel(
            "Background work that fails",
            "short",
            "0 is good. More: `idmatch tables` says which work fails, and why.",
            {"{{instance}}": "idmatch_background_work_failing"},
        ),
        Panel(
            "Stores that can be read",
            "short",
            "1 is good. 0: the store is gone, damaged or of a newer version; the exporter's log "
            "has the code.",
            {"{{instance}}": "idmatch_store_readable"},
        ),
    ),
)
