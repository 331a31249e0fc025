"""File systems that URLs name: those that pyarrow opens, and other schemes of object stores.

Must not know HDFS. On Azure, reads use the same environment variables as writes.
"""

import os
from urllib.parse import unquote

from pyarrow.fs import FileSystem

from idmatch._address import Address
from idmatch._errors import SourceError

# Hadoop writes s3a and s3n. pyarrow speaks to Azure over TLS in any case.
_ALIASES = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "az": "abfs", "abfss": "abfs"}
_AZURE_HOSTS = (".dfs.core.windows.net", ".blob.core.windows.net")


def filesystem_of(url: str) -> tuple[FileSystem, str]:
    """The file system of a URL, and the path in it. Needs no network, but for the region of S3.

    Raises SourceError for Azure without an account, and what pyarrow raises.
    """
    scheme, _, rest = url.partition("://")
    scheme = _ALIASES.get(scheme.lower(), scheme.lower())
    if scheme == "abfs":
        place, _, below = rest.partition("/")
        before, _, host = place.rpartition("@")
        user, _, password = before.partition(":")
        key = unquote(password)
        if host.endswith(_AZURE_HOSTS) and "?" not in rest:
            return _azure(url, host.partition(".")[0], key), _path(user, below)
        if not {".", ":"}.intersection(host) and "?" not in rest:
            return _azure(url, user, key), _path(host, below)
    return FileSystem.from_uri(f"{scheme}://{rest}")


def _azure(url: str, account: str, key: str) -> FileSystem:
    # The result of from_uri loses the key when it is pickled.
    account = account or os.environ.get("AZURE_STORAGE_ACCOUNT_NAME", "")
    if not account:
        raise SourceError(
            f"cannot read {Address(url)}: it has no account; set AZURE_STORAGE_ACCOUNT_NAME, or "
            "write abfs://CONTAINER@ACCOUNT.dfs.core.windows.net/KEY"
        )
    try:
        from pyarrow.fs import AzureFileSystem
    except ImportError as error:
        raise SourceError(
            f"cannot read {Address(url)}: this build of pyarrow has no Azure; install another one"
        ) from error
    key = key or os.environ.get("AZURE_STORAGE_ACCOUNT_KEY", "")
    token = None if key else os.environ.get("AZURE_STORAGE_SAS_TOKEN")
    return AzureFileSystem(account, account_key=key or None, sas_token=token)


def _path(container: str, below: str) -> str:
    return f"{container}/{unquote(below)}".rstrip("/")
