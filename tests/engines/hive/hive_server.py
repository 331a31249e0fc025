"""Hive on HDFS, for tests: HiveServer2 with its tables on a lab's HDFS, in a time zone of its own.

Test modules name it in `pytest_plugins`. Tables are made and looked at by impyla, without idmatch.
"""

import re
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import fsspec
import pytest
from idmatch._lab import Hdfs, Hive
from impala.dbapi import connect

NETWORK = "127.73.72"
ZONE = "Europe/Paris"


class Database:
    """A database of the server, for one test."""

    host = f"{NETWORK}.3"
    port = 10000

    def __init__(self, hdfs: Hdfs, name: str) -> None:
        self.hdfs = hdfs
        self.name = name

    def url(self, table: str = "", *, port: int | None = None, **options: str) -> str:
        """The address of a table, or of the database."""
        said = "&".join(f"{key}={value}" for key, value in options.items())
        place = f"hive://{self.host}:{port or self.port}/{self.name}/{table}".rstrip("/")
        return f"{place}?{said}" if said else place

    def run(self, *statements: str) -> None:
        """Runs statements of HiveQL."""
        self._run(statements)

    def ask(self, query: str) -> list[tuple[object, ...]]:
        """The rows of a query, in order."""
        return sorted(self._run([query], fetches=True), key=repr)

    def _run(self, statements: object, fetches: bool = False) -> list[tuple[object, ...]]:
        with (
            closing(connect(self.host, self.port, auth_mechanism="PLAIN", user="root")) as server,
            closing(server.cursor()) as cursor,
        ):
            cursor.execute(f"USE `{self.name}`")
            for statement in statements:  # type: ignore[attr-defined]
                cursor.execute(statement)
            return list(cursor.fetchall()) if fetches else []

    def staged(self) -> list[str]:
        """What is left where results are unloaded to."""
        return [name for name in self._files.ls("/tmp", detail=False) if "idmatch" in name]

    def files(self, table: str) -> list[str]:
        """The files of a table, hidden ones too."""
        path = self.folder(table)
        return list(self._files.find(path)) if self._files.exists(path) else []

    def hidden(self, table: str) -> list[str]:
        """What is beside its partitions that no query reads."""
        return [name for name in self.files(table) if "/." in name]

    def put(self, name: str, data: bytes) -> None:
        """Makes a file below a table."""
        with self._files.open(self.folder(name), "wb") as file:
            file.write(data)

    def folder(self, name: str) -> str:
        """The path of a table's folder."""
        return f"/hive/external/{self.name}.db/{name}"

    @property
    def _files(self) -> Any:
        """The cluster as fsspec shows it, without idmatch."""
        host, port = self.hdfs.web_address(1).removeprefix("webhdfs://").split(":")
        return fsspec.filesystem("webhdfs", host=host, port=int(port), user="root")


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hdfs]:
    """The HDFS of the server, which runs; HADOOP_CONF_DIR names it."""
    folder = tmp_path_factory.mktemp("lab")
    hdfs = Hdfs(folder / "hdfs", network=NETWORK)
    hive = Hive(folder / "hive", network=NETWORK)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in hdfs.environment.items():
            patch.setenv(name, value)
        patch.delenv("HADOOP_USER_NAME", raising=False)
        try:
            hdfs.start()
            with pytest.MonkeyPatch.context() as zone:
                zone.setenv("TZ", ZONE)
                hive.start()
            yield hdfs
        finally:
            hive.stop()
            hdfs.stop()


@pytest.fixture
def database(server: Hdfs, request: pytest.FixtureRequest) -> Database:
    """A new database."""
    name = re.sub(r"\W+", "_", request.node.name).strip("_").lower()
    Database(server, "default").run(f"CREATE DATABASE `{name}`")
    return Database(server, name)
