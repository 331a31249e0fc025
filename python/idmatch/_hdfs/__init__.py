"""Files of HDFS by their addresses. Imported only where an address names one.

`_native.py` handles `hdfs://`, without Java; `_web.py` handles `webhdfs://`. `_files.py` is the
file system by which pyarrow reads a cluster. Must not know what files are for. Invariants: a call
without an answer ends within `_calls.ANSWER_SECONDS`; no message has the full text of a server.
"""

from ._calls import Refused, TimedOut
from ._cluster import Cluster, Entry, Reader, Writer
from ._files import filesystem
from ._places import located

__all__ = ["Cluster", "Entry", "Reader", "Refused", "TimedOut", "Writer", "filesystem", "located"]
