"""The dashboard *engine*: what a store in a directory does."""

from ._panel import Dashboard, Panel, quantile, rate

ENGINE = Dashboard(
    "engine",
    "idmatch: engine",
    (
        Panel(
            "Upserted rows",
            "rowsps",
            "Rows that were made durable in the journal.",
            {"{{instance}}": rate("idmatch_journal_rows_total", "instance")},
        ),
        Panel(
            "Rows for each commit",
            "short",
            "Threads share commits: more rows for each means fewer waits for the disk.",
            {
                "{{instance}}": f"{rate('idmatch_journal_rows_total', 'instance')} / "
                f"({rate('idmatch_journal_commits_total', 'instance')} > 0)"
            },
        ),
        Panel(
            "Time of journal syncs",
            "s",
            "How long the disk takes to make a commit durable. It bounds upserts of single rows.",
            {
                "{{instance}} p99": quantile(
                    0.99, "idmatch_journal_sync_duration_seconds", "instance"
                )
            },
        ),
        Panel(
            "Memtables",
            "percentunit",
            "The share of their limit. Near 1 upserts wait for flushes: give more memory "
            "(`memtable=`), or a faster disk.",
            {"{{instance}}": "idmatch_memtable_bytes / idmatch_memtable_limit_bytes"},
        ),
        Panel(
            "Journal",
            "bytes",
            "Falls with each flush. If it only grows, flushes fail.",
            {"{{instance}}": "idmatch_journal_bytes"},
        ),
        Panel(
            "Time in flushes",
            "percentunit",
            "The share of time in which a flush ran. Near 1 the disk is too slow for the upserts.",
            {"{{instance}}": rate("idmatch_flush_duration_seconds_sum", "instance")},
        ),
        Panel(
            "Compacted bytes",
            "Bps",
            "What compactions read. They run at low priority.",
            {"{{instance}}": rate("idmatch_compacted_bytes_total", "instance")},
        ),
        Panel(
            "Pending compactions",
            "bytes",
            "What they have yet to read. If it grows for hours, rows come faster than they are "
            "compacted: use loads in place of upserts.",
            {"{{instance}}": "idmatch_pending_compaction_bytes"},
        ),
        Panel(
            "Write stalls",
            "percentunit",
            "The share of time that upserts wait, by reason. 0 is good.",
            {
                "{{instance}} {{reason}}": rate(
                    "idmatch_write_stall_seconds_total", "instance, reason"
                )
            },
        ),
        Panel(
            "Segments beyond the slowdown limit",
            "short",
            "0 is good. Beyond it upserts are slowed down until compactions catch up.",
            {"{{instance}}": "idmatch_segments_beyond_slowdown"},
        ),
        Panel(
            "Major page faults",
            "ops",
            "Reads of the disk for which the process waits. Many with slow lookups: the store "
            "does not fit into the page cache.",
            {"{{instance}}": rate("idmatch_major_page_faults_total", "instance")},
        ),
        Panel(
            "Pinned files",
            "bytes",
            "Replaced files that open snapshots and running reads keep. Close snapshots that are "
            "held for hours.",
            {"{{instance}}": "idmatch_pinned_bytes"},
        ),
        Panel(
            "Snapshots, sessions and calls",
            "short",
            "What is open or runs now. Calls in flight that stay at one number may hang.",
            {
                "{{instance}} snapshots": "idmatch_open_snapshots",
                "{{instance}} sessions": "idmatch_open_sessions",
                "{{instance}} calls": "sum by (instance) (idmatch_calls_in_flight)",
            },
        ),
    ),
)
