"""The dashboard *cluster*: what the nodes of a cluster and their clients do."""

from ._panel import Dashboard, Panel, quantile, rate

CLUSTER = Dashboard(
    "cluster",
    "idmatch: cluster",
    (
        Panel(
            "Open connections",
            "short",
            "Of clients to each Cassandra node. About as many for each node is good. None at "
            "one: see whether clients reach it.",
            {"{{node}}": "idmatch_cassandra_connections"},
        ),
        Panel(
            "Cache hits",
            "percentunit",
            "The share of reads that a cache answers. Near 1 is good. The chunk cache near 0 "
            "with slow reads: give the nodes more memory, or match fewer tables at once.",
            {"{{node}} {{cache}}": "idmatch:cassandra_cache_hits:ratio"},
        ),
        Panel(
            "Cache misses",
            "ops",
            "Reads that went past a cache, to the disk in the end. Few are good. Many of the "
            "chunk cache with slow reads: give the nodes more memory.",
            {
                "{{node}} {{cache}}": rate("idmatch_cassandra_cache_requests_total", "node, cache")
                + " - "
                + rate("idmatch_cassandra_cache_hits_total", "node, cache")
            },
        ),
        Panel(
            "Requests by node",
            "ops",
            "As a coordinator. About as many for each node is good. One with far more has a hot "
            "partition, or the driver knows too few nodes: see Largest partition, and name more "
            "nodes in the address.",
            {
                "{{node}} {{operation}}": "sum by (node, operation) (rate("
                'idmatch_cassandra_requests_total{where="coordinator"}[$__rate_interval]))'
            },
        ),
        Panel(
            "Queued requests",
            "short",
            "Tasks that wait at a node. 0 most of the time is good. Reads that queue for "
            "minutes: the node's disk or its processors are at their limit, so add nodes.",
            {"{{node}} {{pool}}": "idmatch_cassandra_pool_pending"},
        ),
        Panel(
            "Latency by node",
            "s",
            "The p99 of the slowest table of the keyspace, as each node measures it. About the "
            "same for each node is good. One above the others: look at its disk and at Queued "
            "requests.",
            {
                "{{node}} {{operation}}": "idmatch_cassandra_latency_seconds"
                '{where="local", quantile="p99"}'
            },
        ),
        Panel(
            "Latency by node, as the client sees it",
            "s",
            "About the same for each node is good. One above the others: look at its disk, its "
            "queue, and the network to its datacenter.",
            {"{{node}} p99": quantile(0.99, "idmatch_cql_attempt_duration_seconds", "node")},
        ),
        Panel(
            "Unanswered requests",
            "percentunit",
            "The share of attempts that were given up, because another node was faster or time "
            "was over. Near 0 is good. Much of one node: it hangs; restart it.",
            {"{{node}}": "idmatch:cql_unanswered:ratio"},
        ),
        Panel(
            "Retries and speculative attempts",
            "ops",
            "Few are good. Many: the cluster is slow or overloaded; look at Latency by node.",
            {
                "{{instance}} retries": rate("idmatch_cql_retries_total", "instance"),
                "{{instance}} speculative": rate(
                    "idmatch_cql_speculative_attempts_total", "instance"
                ),
            },
        ),
        Panel(
            "Requests in flight",
            "short",
            "Below the limit is good. At the limit all the time: more could be in flight. A "
            "limit far below `in_flight`: nodes were overloaded, so set "
            "`max_requests_per_second`.",
            {
                "{{instance}}": "idmatch_cql_requests_in_flight",
                "{{instance}} limit": "idmatch_cql_requests_limit",
            },
        ),
        Panel(
            "Client threads",
            "percentunit",
            "The share of time that they work. Far below 1 is good. Near 1 this machine's "
            "processors limit: use more of them.",
            {
                "{{instance}}": f"{rate('idmatch_cql_client_busy_seconds_total', 'instance')} / "
                "sum by (instance) (idmatch_cql_client_threads)"
            },
        ),
        Panel(
            "Work on SSTables",
            "short",
            "Compactions that run. 0 some time after a load is good. Some for hours, and a queue "
            "of CompactionExecutor in Queued requests: raise `compaction_throughput`.",
            {"{{node}}": "idmatch_cassandra_sstable_tasks"},
        ),
        Panel(
            "Largest partition",
            "bytes",
            "Below 100 MB is good. Above: the table has outgrown its buckets; copy it.",
            {"{{node}}": "idmatch_cassandra_largest_partition_bytes"},
        ),
        Panel(
            "ScyllaDB: open connections",
            "short",
            "Of clients, by shard. About as many for each shard is good. If not: let clients "
            "reach port 19042, through which the driver chooses a shard.",
            {"{{instance}} {{shard}}": "scylla_transport_current_connections"},
            is_untried=True,
        ),
        Panel(
            "ScyllaDB: cache hits and misses",
            "ops",
            "Rows that the row cache had, and had not. Few misses are good. Many with slow "
            "reads: give the nodes more memory.",
            {
                "{{instance}} hits": rate("scylla_cache_row_hits", "instance"),
                "{{instance}} misses": rate("scylla_cache_row_misses", "instance"),
            },
            is_untried=True,
        ),
        Panel(
            "ScyllaDB: requests by shard",
            "ops",
            "About as many for each shard is good. One with far more has a hot partition: run "
            "`idmatch compact ADDRESS`, which finds hot keys.",
            {"{{instance}} {{shard}}": rate("scylla_transport_requests_served", "instance, shard")},
            is_untried=True,
        ),
        Panel(
            "ScyllaDB: queued SSTable reads",
            "short",
            "Reads that wait for the disk. 0 most of the time is good. Some for minutes: the "
            "disk is at its limit, so add nodes.",
            {"{{instance}} {{shard}}": "sum by (instance, shard) (scylla_database_queued_reads)"},
            is_untried=True,
        ),
    ),
)
