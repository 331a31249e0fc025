"""Hive: Apache Hive's own HiveServer2, with a metastore in Derby and jobs as local MapReduce.

It listens on A.B.C.3 of the lab's network. Its tables are on the lab's HDFS if there is one, else
in its folder.
"""

import shutil
from importlib import resources
from pathlib import Path

from . import _jars
from ._daemon import Daemon
from ._ports import check_free, listens
from ._service import Service, Tell
from ._sites import site

VERSION = "4.0.1"
"""The version of Apache Hive."""

_PORT = 10000
_READY_SECONDS = 240.0
_HDFS_FILES = ("core-site.xml", "hdfs-site.xml")
# Hive and Hadoop 3.3 open these by reflection.
_OPENED = (
    "java.lang",
    "java.lang.invoke",
    "java.lang.reflect",
    "java.io",
    "java.net",
    "java.nio",
    "java.time",
    "java.util",
    "java.util.concurrent",
    "java.util.concurrent.atomic",
    "java.util.regex",
    "sun.nio.ch",
)


class Hive(Service):
    """A server in a folder."""

    def __init__(
        self, folder: Path, tell: Tell = lambda _: None, network: str | None = None
    ) -> None:
        """See `Service`."""
        super().__init__(folder, tell, network)
        self.server = Daemon("hiveserver2", self.folder, self.address)

    @property
    def daemons(self) -> list[Daemon]:
        """See `Service`."""
        return [self.server]

    @property
    def address(self) -> str:
        """The server with its database `default`."""
        return f"hive://{self._network}.3:{_PORT}/default"

    def start(self) -> None:
        """See `Service`. Fetches Hive (about 280 MB) if it is missing."""
        if self.server.process is None:
            check_free(f"{self._network}.3", _PORT)
            self._configure()
            self._tell("starting hiveserver2")
            jars = _jars.fetched("Hive", VERSION, "hive-pom.xml")
            options = [f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in _OPENED]
            # Jobs of small data last as long as the compiler warms up.
            options += ["-Xmx1g", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
            # Without this, Derby writes its log to the folder where the program runs.
            options += [f"-Dderby.stream.error.file={self.folder}/derby.log"]
            self.server.start(options, jars, ["org.apache.hive.service.server.HiveServer2"])
        self.server.wait_until(lambda: listens(f"{self._network}.3", _PORT), _READY_SECONDS)

    def _configure(self) -> None:
        conf = self.folder / "conf"
        conf.mkdir(parents=True, exist_ok=True)
        self._keep_network()
        log4j = resources.files(__package__).joinpath("hive-log4j2.properties").read_text()
        (conf / "hive-log4j2.properties").write_text(log4j)
        hdfs = self.folder.parent / "hdfs" / "conf"
        has_hdfs = hdfs.is_dir()
        for name in _HDFS_FILES if has_hdfs else ():
            shutil.copy(hdfs / name, conf / name)
        (conf / "hive-site.xml").write_text(site(self._settings(has_hdfs)))

    def _settings(self, has_hdfs: bool) -> dict[str, str]:
        files = "/hive" if has_hdfs else f"file://{self.folder}"
        return {
            "javax.jdo.option.ConnectionURL": (
                f"jdbc:derby:;databaseName={self.folder}/metastore;create=true"
            ),
            "javax.jdo.option.ConnectionDriverName": "org.apache.derby.jdbc.EmbeddedDriver",
            "datanucleus.schema.autoCreateAll": "true",
            "hive.metastore.schema.verification": "false",
            "hive.metastore.warehouse.dir": f"{files}/warehouse",
            "hive.metastore.warehouse.external.dir": f"{files}/external",
            "hive.server2.thrift.bind.host": f"{self._network}.3",
            "hive.server2.thrift.port": str(_PORT),
            "hive.server2.webui.port": "0",
            "hive.server2.enable.doAs": "false",
            "hive.server2.tez.initialize.default.sessions": "false",
            "hive.server2.materializedviews.registry.impl": "DUMMY",
            "hive.server2.logging.operation.enabled": "false",
            "hive.execution.engine": "mr",
            "mapreduce.framework.name": "local",
            "mapreduce.cluster.local.dir": f"{self.folder}/local",
            "hadoop.tmp.dir": f"{self.folder}/tmp",
            "hive.exec.scratchdir": f"{files}/scratch",
            "hive.exec.local.scratchdir": f"{self.folder}/scratch",
            "hive.querylog.location": f"{self.folder}/queries",
            "hive.downloaded.resources.dir": f"{self.folder}/resources",
            # Derby has no tables for transactions.
            "hive.support.concurrency": "false",
            "hive.txn.manager": "org.apache.hadoop.hive.ql.lockmgr.DummyTxnManager",
            "hive.stats.autogather": "false",
            "hive.exec.dynamic.partition.mode": "nonstrict",
        }
