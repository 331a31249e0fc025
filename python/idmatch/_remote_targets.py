"""Objects of object stores and files of other file systems, each written whole or not at all.

Must not know where the bytes come from. Invariant: no message has a user, an option of an address,
a credential, or text of a service, which may repeat these.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from itertools import chain
from typing import TYPE_CHECKING
from urllib.parse import unquote

from ._address import Address
from ._errors import InvalidArgument, IoError
from ._hdfs_target import hdfs_file_of
from ._lazy import LazyModule
from ._target import Target, exists, not_replaced

if TYPE_CHECKING:
    import botocore.exceptions as profiles
    import obstore
    import obstore.auth.boto3 as aws
    import obstore.exceptions as refused
    import obstore.store as stores
    from obstore import PutMode
    from obstore.store import ClientConfig
    from pyarrow import fs
else:
    profiles = LazyModule("botocore.exceptions")
    obstore = LazyModule("obstore")
    aws = LazyModule("obstore.auth.boto3")
    refused = LazyModule("obstore.exceptions")
    stores = LazyModule("obstore.store")
    fs = LazyModule("pyarrow.fs")

# S3 has at most 10,000 parts: objects of up to 156 GiB.
_PART_BYTES = 16 << 20
# Each part that is being sent is in memory.
_PARTS_AT_ONCE = 4
# The default of 30 s fails where four parts share less than 2 MB a second.
_REQUEST_TIMEOUT = "2min"
_ALIASES = {"s3a": "s3", "gcs": "gs", "abfss": "abfs"}
_OBJECT_STORES = {"s3", "gs", "az", "abfs"}
_ABSENT = {"NoSuchKey", "BlobNotFound", None}
_NO_BUCKET = {"NoSuchBucket", "ContainerNotFound"}
_DENIED = {"401", "403"}
# Services that are asked for credentials if the environment has none.
_METADATA = re.compile(r"//169\.254\.|/latest/(api/token|meta-data)|/computeMetadata/|/metadata/")
_GOOGLE = "GOOGLE_APPLICATION_CREDENTIALS"
_CREDENTIALS = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    "gs": _GOOGLE,
    "gcs": _GOOGLE,
    "az": "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
}
# Variables with credentials of S3. Files of profiles, by the variables that name other files.
_AWS = ("AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE")
_AWS_FILES = {
    "AWS_SHARED_CREDENTIALS_FILE": "~/.aws/credentials",
    "AWS_CONFIG_FILE": "~/.aws/config",
}
_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>(\w{1,64})</Code>")


def identity(url: str) -> str:
    """A text that all spellings of one address have in common, as far as they tell."""
    scheme, place, path = _parts(url.strip().partition("?")[0])
    return f"{scheme}://{place.rpartition('@')[2].lower()}/{unquote(path)}"


def target_of(url: str) -> Target:
    """The target of an address. Needs no network, except to look for credentials if an AWS profile
    has none.

    Raises InvalidArgument for an address that cannot be written, or that has a user or options;
    MissingExtra if the package for object stores is missing.
    """
    shown = str(Address(url))
    if "://" not in url:
        raise InvalidArgument(f"{shown} is no address; write it like s3://bucket/name.parquet")
    if Address(url).is_hdfs:
        return hdfs_file_of(url, shown)
    scheme, place, path = _parts(url.strip())
    if scheme not in _OBJECT_STORES:
        return _file_of(url.strip(), shown)
    is_azure = scheme in ("az", "abfs")
    if "?" in url or "#" in url or ":" in place or ("@" in place and not is_azure):
        raise InvalidArgument(
            f"an output such as {shown} has no user and no options in its address; set the "
            "credentials, region and endpoint in the environment"
        )
    key = unquote(path)
    if not place or {"", ".", ".."}.intersection(key.split("/")):
        raise InvalidArgument(f"{shown} names no object; write it like s3://bucket/name.parquet")
    return _Object(_store(f"{scheme}://{place}", shown), key, shown)


def _parts(url: str) -> tuple[str, str, str]:
    scheme, _, rest = url.partition("://")
    place, _, path = rest.partition("/")
    scheme = scheme.strip().lower()
    return _ALIASES.get(scheme, scheme), place, path


def _store(url: str, shown: str) -> stores.ObjectStore:
    # Only an endpoint that the user has named may be without TLS.
    is_plain = any(
        value.startswith("http://") for name, value in os.environ.items() if "ENDPOINT" in name
    )
    options: ClientConfig = {"allow_http": is_plain, "timeout": _REQUEST_TIMEOUT}
    profile = _aws_profile() if url.startswith("s3:") else None
    try:
        if profile is not None:
            return stores.from_url(url, client_options=options, credential_provider=profile)
        return stores.from_url(url, client_options=options)
    except (refused.BaseError, ValueError):
        raise InvalidArgument(
            f"cannot write to {shown}: a setting in the environment is missing or wrong"
        ) from None


def _aws_profile() -> aws.Boto3CredentialProvider | None:
    """The credentials of an AWS profile, if the environment has none.

    Raises InvalidArgument for a profile that is missing or damaged.
    """
    environ = os.environ
    files = [environ.get(name, default) for name, default in _AWS_FILES.items()]
    is_there = any(os.path.isfile(os.path.expanduser(file)) for file in files)
    if any(name in environ for name in _AWS) or not (is_there or "AWS_PROFILE" in environ):
        return None
    try:
        profile = aws.Boto3CredentialProvider()
    except profiles.BotoCoreError:
        raise InvalidArgument(
            "there is no profile with credentials of S3: AWS_PROFILE names none, or a file is "
            f"damaged; look into {' and '.join(files)}"
        ) from None
    except ValueError:
        # A file without credentials, such as one that names a region.
        return None
    if "AWS_REGION" in environ:
        profile.config.pop("region", None)
    return profile


class _Object:
    """An object of an object store. A large object is sent in parts."""

    def __init__(self, store: stores.ObjectStore, key: str, shown: str) -> None:
        self._store = store
        self._key = key
        self.shown = shown

    def exists(self) -> bool:
        with self._asking():
            try:
                # Unlike HEAD, its errors tell a missing bucket from a missing object.
                obstore.get(self._store, self._key)
            except FileNotFoundError as error:
                if _code(str(error)) not in _ABSENT:
                    raise
                return False
            return True

    def has_files(self) -> bool:
        with self._asking():
            return any(obstore.list(self._store, self._key, chunk_size=1))

    def below(self, name: str) -> Target:
        return _Object(self._store, f"{self._key}/{name}", f"{self.shown}/{name}")

    def filled(self, *, overwrite: bool) -> AbstractContextManager[Target]:
        # Object stores rename nothing.
        return nullcontext(not_replaced(self, overwrite))

    def put(self, chunks: Iterator[bytes], *, overwrite: bool) -> None:
        first, size = list[bytes](), 0
        for chunk in chunks:
            first.append(chunk)
            size += len(chunk)
            if size >= _PART_BYTES:
                self._put_parts(chain(first, chunks), overwrite)
                return
        mode: PutMode = "overwrite" if overwrite else "create"
        data = b"".join(first)
        with self._asking():
            try:
                obstore.put(self._store, self._key, data, mode=mode, use_multipart=False)
            except refused.AlreadyExistsError:
                # The object is ours if an answer was lost and the request was repeated.
                if bytes(obstore.get(self._store, self._key).bytes()) != data:
                    raise exists(self.shown) from None

    def _put_parts(self, chunks: Iterator[bytes], overwrite: bool) -> None:
        with (
            self._asking(),
            # After an exception it aborts the upload.
            obstore.open_writer(
                self._store, self._key, buffer_size=_PART_BYTES, max_concurrency=_PARTS_AT_ONCE
            ) as writer,
        ):
            for chunk in chunks:
                writer.write(chunk)
            # An upload in parts cannot be conditional on a free name.
            if not overwrite and self.exists():
                raise exists(self.shown)

    def remove(self) -> None:
        with self._asking():
            obstore.delete(self._store, self._key)

    @contextmanager
    def _asking(self) -> Iterator[None]:
        try:
            yield
        except IoError:
            raise
        except (refused.BaseError, OSError) as error:
            reason = _reason(str(error), self.shown)
            # The cause may repeat credentials.
            raise IoError(f"cannot write {self.shown}: {reason}") from None


def _code(text: str) -> str | None:
    found = _CODE.search(text)
    return found[1] if found else None


def _reason(text: str, address: str) -> str:
    if _METADATA.search(text):
        variables = _CREDENTIALS.get(address.partition("://")[0], _CREDENTIALS["s3"])
        return (
            "there are no credentials in the environment, and no service gives any; set them, such "
            f"as {variables}"
        )
    status, code = _STATUS.search(text), _code(text)
    if code in _NO_BUCKET:
        return "there is no such bucket; make it, or name another"
    if status is None:
        return "the service does not answer; check its endpoint and the network, and try again"
    answer = f"{status[1]} {code or ''}".strip()
    if status[1] in _DENIED:
        return f"access is denied ({answer}); check the credentials, the region and their rights"
    return f"the service answered {answer}; try again"


def _file_of(url: str, shown: str) -> Target:
    try:
        filesystem, path = fs.FileSystem.from_uri(url)
    except (OSError, ValueError, ImportError) as error:
        # The text of the error may repeat a user, a password or options.
        told = "" if {"@", "?"}.intersection(url) else f": {str(error).partition(chr(10))[0]}"
        raise InvalidArgument(
            f"cannot write to {shown}{told}; name a file on this machine, or an address that "
            "starts with s3://, gs:// or az://"
        ) from None
    return _File(filesystem, path, shown)


class _File:
    """A file of a file system that pyarrow opens. It is written under another name and moved."""

    def __init__(self, filesystem: fs.FileSystem, path: str, shown: str) -> None:
        self._filesystem = filesystem
        self._path = path
        self.shown = shown

    def exists(self) -> bool:
        with self._asking():
            found = self._filesystem.get_file_info(self._path)
            return found.type is not fs.FileType.NotFound

    def has_files(self) -> bool:
        return self.exists()

    def below(self, name: str) -> Target:
        return _File(self._filesystem, f"{self._path}/{name}", f"{self.shown}/{name}")

    def filled(self, *, overwrite: bool) -> AbstractContextManager[Target]:
        # Some of these file systems rename no folder.
        return nullcontext(not_replaced(self, overwrite))

    def put(self, chunks: Iterator[bytes], *, overwrite: bool) -> None:
        folder = self._path.rpartition("/")[0]
        beside = f"{folder}/.idmatch-{secrets.token_hex(8)}.tmp"
        with self._asking():
            try:
                self._filesystem.create_dir(folder or "/", recursive=True)
                with self._filesystem.open_output_stream(beside, compression=None) as stream:
                    for chunk in chunks:
                        stream.write(chunk)
                if self.exists():
                    if not overwrite:
                        raise exists(self.shown)
                    # Not every file system moves to a name that is taken.
                    self._filesystem.delete_file(self._path)
                self._filesystem.move(beside, self._path)
            except BaseException:
                with suppress(OSError):
                    self._filesystem.delete_file(beside)
                raise

    def remove(self) -> None:
        with self._asking():
            self._filesystem.delete_file(self._path)

    @contextmanager
    def _asking(self) -> Iterator[None]:
        try:
            yield
        except IoError:
            raise
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno else type(error).__name__
            raise IoError(f"cannot write {self.shown}: {reason}; name another file") from None
