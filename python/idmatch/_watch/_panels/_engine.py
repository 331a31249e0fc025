"""The dashboard *engine*: what a store in a directory does."""

from ._panel import Dashboard, Panel, quantile, rate

ENGINE = Dashboard(
    "engine",
    "idmatch: engine",
    (
        Panel(
            "Upserted rows",
            "rowsps",
            "Rows that were made durable in the journal. As many as your sources send is good. "
            "Fewer: look at Write stalls and Time of journal syncs.",
            {"{{instance}}": rate("idmatch_journal_rows_total", "instance")},
        ),
        Panel(
            "Rows for each commit",
            "short",
            "Threads share commits. Many are good: there are fewer waits for the disk. About 1 "
            "with slow upserts: send rows together, or upsert from more threads.",
            {
                "{{instance}}": f"{rate('idmatch_journal_rows_total', 'instance')} / "
                f"({rate('idmatch_journal_commits_total', 'instance')} > 0)"
            },
        ),
        Panel(
            "Time of journal syncs",
            "s",
            "How long the disk takes to make a commit durable. Below 10 ms is good. Above: a "
            "single upsert waits so long, so send rows together, or use a faster disk.",
            {
                "{{instance}} p99": quantile(
                    0.99, "idmatch_journal_sync_duration_seconds", "instance"
                )
            },
        ),
        Panel(
            "Memtables",
            "percentunit",
            "The share of their limit. Below 90 % is good. Near 100 % upserts wait for flushes: "
            "give more memory (`memtable=`), or a faster disk.",
            {"{{instance}}": "idmatch_memtable_bytes / idmatch_memtable_limit_bytes"},
        ),
        Panel(
            "Journal",
            "bytes",
            "That it falls with each flush is good. If it only grows, flushes fail: `idmatch "
            "tables` says why.",
            {"{{instance}}": "idmatch_journal_bytes"},
        ),
        Panel(
            "Time in flushes",
            "percentunit",
            "The share of time in which a flush ran. Far below 1 is good. Near 1: the disk is "
            "too slow for the upserts; use loads in place of them.",
            {"{{instance}}": rate("idmatch_flush_duration_seconds_sum", "instance")},
        ),
        Panel(
            "Compacted bytes",
            "Bps",
            "What compactions read. Bursts after flushes and loads are good. 0 while Pending "
            "compactions grow: compactions fail, and the log says why.",
            {"{{instance}}": rate("idmatch_compacted_bytes_total", "instance")},
        ),
        Panel(
            "Pending compactions",
            "bytes",
            "What compactions have yet to read. That it falls after each burst is good. If it "
            "grows for hours, rows come faster than they are compacted: use loads in place of "
            "upserts.",
            {"{{instance}}": "idmatch_pending_compaction_bytes"},
        ),
        Panel(
            "Write stalls",
            "percentunit",
            "The share of time that upserts wait, by reason; a wait counts when it is over. 0 is "
            "good. More: see IdmatchWritesStall of the runbook.",
            {
                "{{instance}} {{reason}}": rate(
                    "idmatch_write_stall_seconds_total", "instance, reason"
                )
            },
        ),
        Panel(
            "Segments beyond the slowdown limit",
            "short",
            "0 is good. Above, upserts are slowed down until compactions catch up, and beyond "
            "192 they stop: use loads in place of upserts.",
            {"{{instance}}": "idmatch_segments_beyond_slowdown"},
        ),
        Panel(
            "Major page faults",
            "ops",
            "Reads of the disk for which the process waits. Few are good. Many with slow "
            "lookups: the store does not fit into the page cache, so add memory.",
            {"{{instance}}": rate("idmatch_major_page_faults_total", "instance")},
        ),
        Panel(
            "Pinned files",
            "bytes",
            "Replaced files that open snapshots and running reads keep. 0, or bytes that go "
            "within minutes, are good. Else: close snapshots that are held for hours.",
            {"{{instance}}": "idmatch_pinned_bytes"},
        ),
        Panel(
            "Snapshots, sessions and calls",
            "short",
            "What is open or runs now. That each goes back to 0 is good. Calls that stay at one "
            "number: they may hang; report it.",
            {
                "{{instance}} snapshots": "idmatch_open_snapshots",
                "{{instance}} sessions": "idmatch_open_sessions",
                "{{instance}} calls": "sum by (instance) (idmatch_calls_in_flight)",
            },
        ),
    ),
)
