"""PostgreSQL, Debian's, as a cluster of its own behind a unix socket; the client is psycopg 3 with
its C part.

Schema: one table with the primary key (id, partner_id) and an index by partner_id. No index has the
date, so that a pair seen again is a HOT update that touches no index; fillfactor 90 leaves it the
room. Collation C, dates as bigint milliseconds. Newest date: INSERT ... ON CONFLICT DO UPDATE ...
WHERE seen_at < excluded.seen_at.

Writes: a batch is one INSERT from unnest() of three arrays, in the order of the key, which keeps
two batches with the same pairs from waiting for each other in a circle. A single row is a prepared
INSERT. Both commit by themselves.

Settings: fsync, synchronous_commit and full_page_writes on; shared_buffers 4 GB; a log of up to 4
GB between checkpoints, its page images compressed with LZ4; wal_level minimal, as there is no
replica.

Fill: COPY into a table without log, from there grouped into the table, then both indexes.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path

import psycopg

from live_peers.base import CACHE_BYTES, Batch, Client, Found, LeftOut, LivePeer
from live_peers.servers import Server, ServerFailed, as_user, check_socket_path, give_to

_USER = "postgres"
_PROGRAMS = Path("/usr/lib/postgresql")
_NEWEST = (
    "ON CONFLICT (id, partner_id) DO UPDATE SET seen_at = excluded.seen_at WHERE pairs.seen_at <"
    " excluded.seen_at"
)
_UPSERT_ONE = f"INSERT INTO pairs VALUES (%s, %s, %s) {_NEWEST}"
_UPSERT_MANY = f"""
    INSERT INTO pairs
    SELECT id, partner_id, max(seen_at)
    FROM unnest(%s::text[], %s::text[], %s::bigint[]) AS row (id, partner_id, seen_at)
    GROUP BY id, partner_id ORDER BY id, partner_id
    {_NEWEST}
"""
_SETTINGS = {
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "wal_sync_method": "fdatasync",
    "shared_buffers": f"{CACHE_BYTES >> 20}MB",
    "effective_cache_size": "12GB",
    "maintenance_work_mem": "1GB",
    "work_mem": "64MB",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "wal_compression": "lz4",
    "wal_buffers": "64MB",
    "max_wal_size": "4GB",
    "checkpoint_timeout": "15min",
    "max_connections": "80",
    "listen_addresses": "",
    "jit": "off",
}


class PostgreSql(LivePeer):
    """One private cluster."""

    processes = 4
    log_files = "cluster/pg_wal/*"

    def __init__(self, workspace: Path) -> None:
        super().__init__(workspace)
        self._cluster = workspace / "cluster"

    @cached_property
    def _programs(self) -> Path:
        """The newest version's folder of programs."""
        found = [path for path in _PROGRAMS.glob("*/bin") if (path / "initdb").exists()]
        if not found:
            raise LeftOut("PostgreSQL's server is not installed: apt-get install postgresql")
        return max(found, key=lambda path: float(path.parent.name))

    def version(self) -> str:
        text = subprocess.run(
            [self._programs / "postgres", "--version"], check=True, capture_output=True, text=True
        ).stdout
        return text.split()[2]

    def settings(self) -> Mapping[str, str]:
        return {
            "layout": "PRIMARY KEY (id, partner_id), index by partner_id, fillfactor 90",
            "durable": "synchronous_commit=on, fsync=on",
            "newest": "ON CONFLICT DO UPDATE WHERE older",
            "writers": f"one connection each, in {self.processes} processes",
            "cache": "shared_buffers 4 GB",
            "options": " ".join(f"{name}={value}" for name, value in _SETTINGS.items()),
        }

    def start(self) -> None:
        check_socket_path(self._cluster)
        if not (self._cluster / "PG_VERSION").exists():
            self._make()
        command = [
            str(self._programs / "postgres"),
            "-D",
            str(self._cluster),
            "-k",
            str(self._cluster),
        ]
        for name, value in _SETTINGS.items():
            command += ["-c", f"{name}={value}"]
        self._server = Server(command, self.workspace, self._answers, _USER)

    def _make(self) -> None:
        if not shutil.which("setpriv"):
            raise LeftOut("setpriv is not installed: apt-get install util-linux")
        give_to(_USER, self._cluster)
        made = subprocess.run(
            [
                *as_user(_USER),
                str(self._programs / "initdb"),
                "--pgdata",
                str(self._cluster),
                "--username",
                _USER,
                "--auth",
                "trust",
                "--encoding",
                "UTF8",
                "--locale",
                "C",
                "--no-instructions",
            ],
            capture_output=True,
            text=True,
            check=False,
            cwd="/",
        )
        if made.returncode:
            raise ServerFailed(f"initdb: {made.stderr.strip()[-300:]}")

    def _answers(self) -> bool:
        try:
            self._connection().close()
        except psycopg.OperationalError:
            return False
        return True

    def _connection(self) -> psycopg.Connection:
        return psycopg.connect(
            host=str(self._cluster),
            user=_USER,
            dbname="postgres",
            autocommit=True,
            prepare_threshold=0,
        )

    def fill(self, chunks: Iterable[Batch]) -> None:
        with self._connection() as database:
            database.execute(
                "CREATE UNLOGGED TABLE staging (id text, partner_id text, seen_at bigint)"
            )
            with database.cursor().copy("COPY staging FROM STDIN") as copy:
                for chunk in chunks:
                    rows = zip(chunk.ids, chunk.partner_ids, chunk.seen_at, strict=True)
                    copy.write("".join([f"{one}\t{other}\t{date}\n" for one, other, date in rows]))
            database.execute("""
                CREATE TABLE pairs WITH (fillfactor = 90) AS
                SELECT id, partner_id, max(seen_at) AS seen_at FROM staging GROUP BY id, partner_id
            """)
            database.execute("DROP TABLE staging")
            database.execute(
                "ALTER TABLE pairs ADD PRIMARY KEY (id, partner_id), ALTER seen_at SET NOT NULL"
            )
            database.execute("CREATE INDEX by_partner_id ON pairs (partner_id)")
            database.execute("VACUUM ANALYZE pairs")
            database.execute("CHECKPOINT")

    def connect(self) -> Client:
        return _Connection(self._connection())

    def stop(self) -> None:
        self._server.stop(signal.SIGINT)


class _Connection(Client):
    def __init__(self, database: psycopg.Connection) -> None:
        self._database = database

    def upsert(self, batch: Batch) -> None:
        if len(batch) == 1:
            self._database.execute(
                _UPSERT_ONE, (batch.ids[0], batch.partner_ids[0], batch.seen_at[0])
            )
        else:
            self._database.execute(
                _UPSERT_MANY, (batch.ids, batch.partner_ids, batch.seen_at), binary=True
            )

    def partner_ids(self, key: str) -> Found:
        found: Found = self._database.execute(
            "SELECT partner_id, seen_at FROM pairs WHERE id = %s ORDER BY seen_at DESC",
            (key,),
            binary=True,
        ).fetchall()
        return found

    def ids(self, key: str) -> Found:
        found: Found = self._database.execute(
            "SELECT id, seen_at FROM pairs WHERE partner_id = %s ORDER BY seen_at DESC",
            (key,),
            binary=True,
        ).fetchall()
        return found

    def close(self) -> None:
        self._database.close()


PEER = PostgreSql
