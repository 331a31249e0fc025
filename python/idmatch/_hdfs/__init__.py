"""Files of HDFS by their addresses. Imported only where an address names one.

`hdfs://` is spoken by `_native.py`, without Java; `webhdfs://` by `_web.py`. `_files.py` shows a
cluster to pyarrow, which reads it. Must not know what files are for. Invariants: each call ends
within `_calls.ANSWER_SECONDS` without an answer, and no message has text of a server in full.
"""

from ._calls import Refused, TimedOut
from ._cluster import Cluster, Entry, Reader, Writer
from ._files import filesystem
from ._places import located

__all__ = ["Cluster", "Entry", "Reader", "Refused", "TimedOut", "Writer", "filesystem", "located"]
