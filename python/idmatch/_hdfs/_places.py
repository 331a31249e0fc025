"""Addresses of HDFS: the cluster and the path that they name."""

from urllib.parse import urlsplit

from idmatch._address import Address
from idmatch._errors import InvalidArgument

from ._cluster import Cluster
from ._native import NativeCluster
from ._web import WebCluster


def located(url: str) -> tuple[Cluster, str]:
    """The cluster of an address, and the path in it as it is written. Sends no request.

    Characters are not decoded: names of folders on HDFS may contain %2F and the like. Raises
    InvalidArgument for an address that has a user or options, or names no cluster; MissingExtra if
    a package is missing.
    """
    shown = str(Address(url))
    scheme, _, rest = url.strip().partition("://")
    place, slash, path = rest.partition("/")
    if "@" in place or "?" in url:
        raise InvalidArgument(
            f"an address such as {shown} has no user and no options; set HADOOP_USER_NAME and "
            "HADOOP_CONF_DIR in the environment"
        )
    try:
        port = urlsplit(f"//{place}").port
    except ValueError:
        raise InvalidArgument(
            f"{shown} has no port in its place; write it like hdfs://namenode:8020/path"
        ) from None
    made = NativeCluster if scheme.lower() == "hdfs" else WebCluster
    return made(place, port), slash + path or "/"
