"""The Cassandra node that all systems of the benchmark on servers share.

It is a lab of idmatch, with the settings and Java options that Cassandra itself comes with where a
lab has other ones: a lab is made for three small nodes on one machine, and to lose nothing.
Assertions are left off, as in a lab. Three settings are others than Cassandra's: the cache of
chunks is on, without which each read of a row decompresses 16 KiB; files are `bti` with an index
entry every 4 KiB, as docs/how-to/operate-servers.md and Cassandra's `cassandra_latest.yaml` have
it; and requests have 30 s, so a pause of the node slows a request and does not fail it.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from idmatch._lab import Lab, jars
from progress import log

# Cassandra's own defaults for a heap of 4 GiB, but for three, see above.
SETTINGS: dict[str, object] = {
    "column_index_size": "4KiB",
    "commitlog_sync": "periodic",
    "commitlog_sync_period": "10000ms",
    "concurrent_reads": 32,
    "concurrent_writes": 32,
    "memtable_heap_space": "1024MiB",
    "memtable_offheap_space": "1024MiB",
    "file_cache_enabled": True,
    "file_cache_size": "512MiB",
    "key_cache_size": "100MiB",
    "networking_cache_size": "128MiB",
    "read_request_timeout": "30s",
    "range_request_timeout": "30s",
    "write_request_timeout": "30s",
    "concurrent_compactors": 2,
    "compaction_throughput": "64MiB/s",
}
# Those of Cassandra's conf/jvm17-server.options and conf/jvm-server.options that have to do with
# speed.
JAVA_OPTIONS = (
    "-XX:+ParallelRefProcEnabled",
    "-XX:MaxTenuringThreshold=1",
    "-XX:G1HeapRegionSize=16m",
    "-XX:G1RSetUpdatingPauseTimePercent=5",
    "-XX:MaxGCPauseMillis=300",
    "-XX:InitiatingHeapOccupancyPercent=70",
    "-XX:-UseStringDeduplication",
    "-XX:+AlwaysPreTouch",
    "-XX:+UseNUMA",
    "-Dio.netty.allocator.useCacheForAllThreads=true",
    "-Dio.netty.allocator.maxOrder=11",
)
# What a page of results says of the node: these, and one that the lab itself sets.
SHOWN = (*SETTINGS, "sstable.selected_format")
_DIRECT_MEMORY = "2g"
_NODETOOL_TIMEOUT_SECONDS = 600

_LOG_TO_STDERR = """<configuration>
  <appender name="E" class="ch.qos.logback.core.ConsoleAppender">
    <target>System.err</target><encoder><pattern>%-5level %msg%n</pattern></encoder>
  </appender>
  <root level="WARN"><appender-ref ref="E"/></root>
</configuration>
"""


class Node:
    """One node, in a `with` block; it is deleted at the end unless it is to be kept."""

    def __init__(self, folder: Path, network: str, heap: int, jmx_port: int, keep: bool) -> None:
        self.heap = heap
        self._folder, self._network = folder, network
        self._jmx_port, self._keep = jmx_port, keep
        options = [
            f"-Dcassandra.jmx.local.port={jmx_port}",
            f"-XX:MaxDirectMemorySize={_DIRECT_MEMORY}",
            *JAVA_OPTIONS,
        ]
        self._lab = Lab(folder, log, options, SETTINGS)
        self.address = ""

    def __enter__(self) -> Self:
        (node,) = self._lab.up(1, self.heap, self._network)
        self.address = node.address
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._lab.down(delete=not self._keep)
        if not self._keep:
            shutil.rmtree(self._folder, ignore_errors=True)

    def flush(self) -> float:
        """Writes what is in memtables to disk, so that all tables are read from there; returns
        the seconds.
        """
        return self._tell("flush")

    def compact(self, keyspace: str) -> float:
        """Compacts the tables of a keyspace, so that the rows of a partition are in one file;
        returns the seconds.
        """
        return self._tell("compact", keyspace)

    def _tell(self, *what: str) -> float:
        """Has `nodetool` do something; returns the seconds."""
        logging = self._folder / "logback-tools.xml"
        logging.write_text(_LOG_TO_STDERR)
        java = shutil.which("java") or "java"
        began = time.perf_counter()
        subprocess.run(
            [
                java,
                f"@{self._folder / 'node1' / 'jvm.options'}",
                "-Xmx128m",
                f"-Dcassandra.logdir={self._folder}",
                f"-Dlogback.configurationFile=file://{logging}",
                "-cp",
                f"{jars()}/*",
                "org.apache.cassandra.tools.NodeTool",
                "-h",
                "127.0.0.1",
                "-p",
                str(self._jmx_port),
                *what,
            ],
            stdout=sys.stderr,
            timeout=_NODETOOL_TIMEOUT_SECONDS,
            check=True,
        )
        return time.perf_counter() - began


def main() -> None:
    """Starts a node and prints its address; for each keyspace on standard input flushes and
    compacts it, and prints `done`; ends with the input.
    """
    parser = argparse.ArgumentParser(description="Run a Cassandra node until the input ends.")
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--network", required=True)
    parser.add_argument("--heap", type=int, required=True)
    parser.add_argument("--jmx-port", type=int, default=7236)
    options = parser.parse_args()
    with Node(options.folder, options.network, options.heap, options.jmx_port, False) as node:
        print(node.address, flush=True)
        for line in sys.stdin:
            node.flush()
            node.compact(line.strip())
            print("done", flush=True)


if __name__ == "__main__":
    main()
