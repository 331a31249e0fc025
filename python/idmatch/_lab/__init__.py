"""The lab: real servers on this machine's loopback, for experiments.

Must not know stores. `_cluster.py` manages all nodes of Cassandra and `_nodes.py` one of them.
`_services.py` names the other servers, `_hdfs.py`, `_hive.py`, `_spark.py` and `_prometheus.py`.
`_service.py` is their base class, `_daemon.py` one of their programs. `_jars.py` finds Java, and
fetches all servers but Spark and Prometheus.
"""

from ._cluster import MOST_NODES, Lab, contact_points
from ._daemon import Daemon
from ._hdfs import Hdfs
from ._hive import Hive
from ._jars import cache, jars
from ._nodes import Node
from ._prometheus import Prometheus
from ._service import Service
from ._services import in_order, service, services, wipe

__all__ = [
    "MOST_NODES",
    "Daemon",
    "Hdfs",
    "Hive",
    "Lab",
    "Node",
    "Prometheus",
    "Service",
    "cache",
    "contact_points",
    "in_order",
    "jars",
    "service",
    "services",
    "wipe",
]
