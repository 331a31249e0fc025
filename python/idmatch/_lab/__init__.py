"""The lab: a real Apache Cassandra cluster on this machine's loopback, for experiments.

Must not know stores. `_cluster.py` manages all nodes, `_nodes.py` one node, and `_jars.py` their
Java and Cassandra.
"""

from ._cluster import MOST_NODES, Lab, contact_points
from ._jars import cache, jars
from ._nodes import Node

__all__ = ["MOST_NODES", "Lab", "Node", "cache", "contact_points", "jars"]
