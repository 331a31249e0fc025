"""The panels of the dashboards: what each shows, in which unit, and which values are good.

`scripts/dashboards.py` makes Grafana's files of them. Names of figures are those of
docs/reference/metrics.md. Must not know who draws them.
"""

from ._cluster import CLUSTER
from ._engine import ENGINE
from ._overview import OVERVIEW
from ._panel import Dashboard, Panel, Unit
from ._partners import PARTNERS

DASHBOARDS = (OVERVIEW, ENGINE, CLUSTER, PARTNERS)

__all__ = ["DASHBOARDS", "Dashboard", "Panel", "Unit"]
