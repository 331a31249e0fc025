"""The lab: a real Apache Cassandra cluster on this machine's loopback, to try things out.

Knows nothing of stores. `_cluster.py` has the nodes together, `_nodes.py` one of them, `_jars.py`
what they run.
"""

from ._cluster import MOST_NODES, Lab, contact_points
from ._jars import cache, jars
from ._nodes import Node

__all__ = ["MOST_NODES", "Lab", "Node", "cache", "contact_points", "jars"]
