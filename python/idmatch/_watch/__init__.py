"""Figures of a store for Prometheus, and the dashboards that show them.

`_process` has the metrics of this process, `_exporter` those of a store that others write, and
`_cluster` those of Cassandra's nodes; `_server` answers. `_panels` are the graphs. No figure has an
identifier or a path.
"""
