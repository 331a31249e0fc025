"""A real S3 server in a process of its own, and a proxy before it that fails as services do."""

import http.client
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import boto3

KEY, SECRET = "test-key-id", "test-secret-hunter2"
BUCKET = "results"
_CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": KEY,
    "AWS_SECRET_ACCESS_KEY": SECRET,
    "AWS_REGION": "eu-central-1",
}
_DENIED = f"""<?xml version="1.0"?><Error><Code>SignatureDoesNotMatch</Code>
<AWSAccessKeyId>{KEY}</AWSAccessKeyId><StringToSign>{SECRET}</StringToSign></Error>"""
_SLOW_DOWN = "<Error><Code>SlowDown</Code><Message>Reduce your request rate.</Message></Error>"


class Request(NamedTuple):
    """A request that a proxy got."""

    method: str
    path: str
    range: str = ""
    """The bytes that are asked for, if not all are."""

    @property
    def is_part(self) -> bool:
        """Whether it sends a part of an upload."""
        return "partNumber=" in self.path


Fault = Callable[[Request], str | None]
"""What goes wrong with a request: "slow down", "cut", "lost answer", "half answer", "denied", or
nothing."""


def _no_fault(request: Request) -> None:
    """Passes it on."""


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """Prints nothing where a client has gone."""


class Proxy:
    """Passes requests on, unless `fault` says otherwise."""

    def __init__(self, upstream: str) -> None:
        self.upstream = urlsplit(upstream)
        self.fault: Fault = _no_fault
        self.seen: list[Request] = []
        self.answered: list[Request] = []
        """Those that the server has answered."""
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _pass(self) -> None:
                proxy.answer(self)

            do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _pass

            def log_message(self, format: str, *args: object) -> None:
                """Prints nothing."""

        self._server = _Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        """Answers a request."""
        body = handler.rfile.read(int(handler.headers.get("Content-Length", 0)))
        request = Request(handler.command, handler.path, handler.headers.get("Range", ""))
        self.seen.append(request)
        fault = self.fault(request)
        if fault == "cut":
            handler.close_connection = True
        elif fault in ("slow down", "denied"):
            text = (_DENIED if fault == "denied" else _SLOW_DOWN).encode()
            _send(handler, 403 if fault == "denied" else 503, {}, text, len(text))
        else:
            upstream = http.client.HTTPConnection(self.upstream.netloc)
            headers = dict(handler.headers.items())
            upstream.request(handler.command, handler.path, body, headers)
            got = upstream.getresponse()
            text = got.read()
            upstream.close()
            self.answered.append(request)
            if fault == "lost answer":
                handler.close_connection = True
                return
            sent = len(text) // 2 if fault == "half answer" else len(text)
            _send(handler, got.status, dict(got.getheaders()), text, sent)
            if fault == "half answer":
                handler.close_connection = True

    def close(self) -> None:
        """Ends it."""
        self._server.shutdown()
        self._server.server_close()


def _send(
    handler: BaseHTTPRequestHandler, status: int, headers: dict[str, str], body: bytes, sent: int
) -> None:
    """Answers with so many bytes of a body, whose whole length is told."""
    try:
        handler.send_response(status)
        for name, value in headers.items():
            is_length = name.lower() == "content-length"
            if not is_length or handler.command == "HEAD":
                handler.send_header(name, value)
        if handler.command != "HEAD":
            handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body[:sent])
    except OSError:
        # Whoever asked has gone.
        handler.close_connection = True


class S3:
    """A bucket on the server behind a proxy."""

    def __init__(self, url: str) -> None:
        self.proxy = Proxy(url)
        self.environment = {**_CREDENTIALS, "AWS_ENDPOINT_URL": self.proxy.url}
        self._client: Any = boto3.client(
            "s3",
            endpoint_url=url,
            aws_access_key_id=KEY,
            aws_secret_access_key=SECRET,
            region_name="eu-central-1",
        )
        if BUCKET not in [one["Name"] for one in self._client.list_buckets()["Buckets"]]:
            place = {"LocationConstraint": "eu-central-1"}
            self._client.create_bucket(Bucket=BUCKET, CreateBucketConfiguration=place)

    def get(self, key: str) -> bytes:
        """An object."""
        return bytes(self._client.get_object(Bucket=BUCKET, Key=key)["Body"].read())

    def put(self, key: str, data: bytes) -> None:
        """Makes an object."""
        self._client.put_object(Bucket=BUCKET, Key=key, Body=data)

    def keys(self) -> list[str]:
        """All objects."""
        found = self._client.list_objects_v2(Bucket=BUCKET).get("Contents", [])
        return [one["Key"] for one in found]

    def uploads(self) -> list[str]:
        """Objects whose upload has begun and neither ended nor been aborted."""
        found = self._client.list_multipart_uploads(Bucket=BUCKET).get("Uploads", [])
        return [one["Key"] for one in found]

    def clear(self) -> None:
        """Removes what is there, and the faults."""
        self.proxy.fault = _no_fault
        self.proxy.seen.clear()
        self.proxy.answered.clear()
        for key in self.keys():
            self._client.delete_object(Bucket=BUCKET, Key=key)
        for one in self._client.list_multipart_uploads(Bucket=BUCKET).get("Uploads", []):
            self._client.abort_multipart_upload(
                Bucket=BUCKET, Key=one["Key"], UploadId=one["UploadId"]
            )


@contextmanager
def served() -> Iterator[S3]:
    """A server with an empty bucket: moto, the one at the address in IDMATCH_TEST_S3, or versitygw,
    where IDMATCH_TEST_VERSITYGW names the program.
    """
    if url := os.environ.get("IDMATCH_TEST_S3"):
        with _behind_proxy(url) as s3:
            yield s3
        return
    if program := os.environ.get("IDMATCH_TEST_VERSITYGW"):
        with _versitygw(program) as url, _behind_proxy(url) as s3:
            yield s3
        return
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            printed = iter(process.stderr)
            urls = (re.search(r"http://127\.0\.0\.1:\d+", line) for line in printed)
            address = next(url[0] for url in urls if url)
            # It would wait for someone to read what it prints.
            threading.Thread(target=lambda: [None for _ in printed], daemon=True).start()
            with _behind_proxy(address) as s3:
                yield s3
        finally:
            process.kill()


@contextmanager
def _versitygw(program: str) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        host, port = free.getsockname()
    with tempfile.TemporaryDirectory() as folder:
        keys = {"ROOT_ACCESS_KEY": KEY, "ROOT_SECRET_KEY": SECRET}
        place = ["--port", f"{host}:{port}", "--region", "eu-central-1", "posix", folder]
        process = subprocess.Popen(
            [program, *place], env=os.environ | keys, stdout=subprocess.DEVNULL
        )
        try:
            while process.poll() is None:
                with suppress(OSError), socket.create_connection((host, port)):
                    break
                time.sleep(0.05)
            yield f"http://{host}:{port}"
        finally:
            process.kill()
            process.wait()


@contextmanager
def _behind_proxy(url: str) -> Iterator[S3]:
    s3 = S3(url)
    try:
        yield s3
    finally:
        s3.proxy.close()
