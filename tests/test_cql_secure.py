"""Connections to real nodes that want TLS, a certificate of the client and a password.

There is one node, or as many as IDMATCH_TEST_NODES says. Certificates and keys are made for each
run.
"""

import os
import socket
import socketserver
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import idmatch
import pyarrow as pa
import pytest
import trustme
from conftest import NOON, SMALL
from cryptography.hazmat.primitives import serialization
from idmatch._lab import Lab
from with_lab import FOR_TESTS

NETWORK = "127.73.24"
NODES = int(os.environ.get("IDMATCH_TEST_NODES", "1"))
ADDRESSES = [f"{NETWORK}.{n}" for n in range(1, NODES + 1)]
# Leads to the first node, whose certificate does not name it.
OTHER_ADDRESS = f"{NETWORK}.9"
PORT = 9042
HEAP = 1 << 29
CONTACT_POINTS = ",".join(ADDRESSES)
# Of a new Cassandra with PasswordAuthenticator.
LOGIN = "cassandra:cassandra"
PASSWORD = "hunter2"


def write(file: Path, *parts: trustme.Blob) -> Path:
    """A PEM file with these parts."""
    file.write_bytes(b"".join(part.bytes() for part in parts))
    return file


def in_pkcs8(key: trustme.Blob) -> bytes:
    """A private key in the form that Cassandra reads."""
    return serialization.load_pem_private_key(key.bytes(), None).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


class Secure:
    """Nodes, the files that a client needs for them, and others that are of no use."""

    def __init__(self, folder: Path) -> None:
        authority, stranger = trustme.CA(), trustme.CA()
        server = authority.issue_cert(*ADDRESSES)
        client, other = authority.issue_cert("client"), stranger.issue_cert("client")
        self.folder = folder
        self.ca = write(folder / "ca.pem", authority.cert_pem)
        self.other_ca = write(folder / "other-ca.pem", stranger.cert_pem)
        self.certificate = write(folder / "client.pem", *client.cert_chain_pems)
        self.key = write(folder / "client-key.pem", client.private_key_pem)
        self.other_certificate = write(folder / "other.pem", *other.cert_chain_pems)
        self.other_key = write(folder / "other-key.pem", other.private_key_pem)
        both = folder / "server.pem"
        both.write_bytes(in_pkcs8(server.private_key_pem) + server.cert_chain_pems[0].bytes())
        self.settings = {
            "authenticator": "PasswordAuthenticator",
            "client_encryption_options": {
                "enabled": True,
                "optional": False,
                "require_client_auth": True,
                "ssl_context_factory": {
                    "class_name": "org.apache.cassandra.security.PEMBasedSslContextFactory"
                },
                "keystore": str(both),
                "truststore": str(self.ca),
            },
        }

    @property
    def tls(self) -> str:
        """The options that are right."""
        return f"tls_ca={self.ca}&tls_certificate={self.certificate}&tls_key={self.key}"

    def address(self, options: str, login: str = LOGIN, host: str = CONTACT_POINTS) -> str:
        user = f"{login}@" if login else ""
        return (
            f"cql://{user}{host}/secure?replication={NODES}&metadata_ttl=50ms&timeout=10s&{options}"
        )


class Forward(socketserver.BaseRequestHandler):
    """Takes a connection through to the node."""

    def handle(self) -> None:
        with socket.create_connection((ADDRESSES[0], PORT)) as node:
            back = threading.Thread(target=copy, args=(node, self.request))
            back.start()
            copy(self.request, node)
            back.join()


def copy(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)


class Forwarder(socketserver.ThreadingTCPServer):
    """Forwards every connection in a thread of its own."""

    allow_reuse_address = True
    daemon_threads = True


@pytest.fixture
def forwarded() -> Iterator[str]:
    """Another address of the first node."""
    with Forwarder((OTHER_ADDRESS, PORT), Forward) as server:
        threading.Thread(target=server.serve_forever).start()
        yield OTHER_ADDRESS
        server.shutdown()


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secure]:
    """Running nodes that take nobody without TLS, certificate and password."""
    folder = tmp_path_factory.mktemp("lab")
    secure = Secure(folder)
    # Their first user is made at once, not after ten seconds.
    lab = Lab(
        folder,
        jvm_options=[*FOR_TESTS, "-Dcassandra.superuser_setup_delay_ms=0"],
        settings=secure.settings,
    )
    try:
        lab.up(NODES, HEAP, NETWORK)
        wait_for_user(secure)
        yield secure
    finally:
        lab.down(delete=True)


def wait_for_user(secure: Secure) -> None:
    """Nodes listen before their first user is made."""
    until = time.monotonic() + 300
    while True:
        try:
            idmatch.open(secure.address(secure.tls)).close()
        except idmatch.InvalidArgument:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)
        else:
            return


def refused(
    kind: type[idmatch.Error] | tuple[type[idmatch.Error], ...], address: str, *said: str
) -> None:
    """Nobody connects, for a reason that is said; the password is not."""
    with pytest.raises(kind) as raised:
        idmatch.open(address)
    text = str(raised.value)
    for part in said:
        assert part in text
    assert PASSWORD not in text


def test_rows_go_and_come(secure: Secure) -> None:
    with idmatch.open(secure.address(secure.tls)) as store:
        table = store.create_table("t", expected_rows=64_000)
        table.load(SMALL)
        assert table.last_seen("a", "x") == NOON
        assert table.match(pa.table({"id": ["a", "nobody"]})).rows == 2


def test_servers_have_to_be_known(secure: Secure, forwarded: str) -> None:
    client = f"tls_certificate={secure.certificate}&tls_key={secure.key}"
    refused(
        idmatch.InvalidArgument,
        secure.address(f"tls_ca={secure.other_ca}&{client}"),
        f"not signed by an authority of tls_ca={secure.other_ca}",
    )
    refused(
        idmatch.InvalidArgument,
        secure.address(secure.tls, host=forwarded),
        "does not name the IP address",
        "tls_verify_hostname=off",
    )
    unnamed = f"{secure.tls}&tls_verify_hostname=off"
    with idmatch.open(secure.address(unnamed, host=forwarded)) as store:
        store.create_table("unnamed", expected_rows=64_000).upsert_one("a", "x", NOON)
    # The authority has to be the right one all the same.
    refused(
        idmatch.InvalidArgument,
        secure.address(f"tls_ca={secure.other_ca}&{client}&tls_verify_hostname=off"),
        "not signed by an authority",
    )


def test_clients_have_to_be_known(secure: Secure) -> None:
    # The node says why and ends the connection at once, which may overtake what it said.
    either = (idmatch.InvalidArgument, idmatch.Unavailable)
    refused(either, secure.address(f"tls_ca={secure.ca}"), "tls_certificate=FILE&tls_key=FILE")
    other = f"tls_certificate={secure.other_certificate}&tls_key={secure.other_key}"
    refused(
        either,
        secure.address(f"tls_ca={secure.ca}&{other}"),
        f"tls_certificate={secure.other_certificate}",
    )


def test_a_plain_connection_is_told_of_tls(secure: Secure) -> None:
    refused(idmatch.Unavailable, secure.address(""), "if they want TLS", "tls_ca=FILE")


def test_users_have_to_be_known(secure: Secure) -> None:
    with_tls = secure.tls
    refused(
        idmatch.InvalidArgument,
        secure.address(with_tls, login=f"cassandra:{PASSWORD}"),
        "do not accept this user with this password",
    )
    refused(
        idmatch.InvalidArgument,
        secure.address(with_tls, login=f"nobody:{PASSWORD}"),
        "do not accept this user with this password",
    )
    refused(
        idmatch.InvalidArgument,
        secure.address(with_tls, login=""),
        "IDMATCH_CQL_USER",
        "IDMATCH_CQL_PASSWORD",
    )


def test_the_environment_says_what_an_address_does_not(
    secure: Secure, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IDMATCH_CQL_TLS_CA", str(secure.ca))
    monkeypatch.setenv("IDMATCH_CQL_TLS_CERTIFICATE", str(secure.certificate))
    monkeypatch.setenv("IDMATCH_CQL_TLS_KEY", str(secure.key))
    monkeypatch.setenv("IDMATCH_CQL_USER", "cassandra")
    monkeypatch.setenv("IDMATCH_CQL_PASSWORD", "cassandra")
    with idmatch.open(secure.address("", login="")) as store:
        store.create_table("environment", expected_rows=64_000)
    monkeypatch.setenv("IDMATCH_CQL_PASSWORD", PASSWORD)
    refused(idmatch.InvalidArgument, secure.address("", login=""), "do not accept this user")


def test_files_that_are_wrong_are_named(secure: Secure, tmp_path: Path) -> None:
    empty = tmp_path / "empty.pem"
    empty.touch()
    secret = tmp_path / "secret.pem"
    secret.write_bytes(
        serialization.load_pem_private_key(secure.key.read_bytes(), None).private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(PASSWORD.encode()),
        )
    )
    ca, certificate, missing = secure.ca, secure.certificate, tmp_path / "missing.pem"
    for options, *said in (
        (f"tls_ca={missing}", f"tls_ca={missing}", "cannot be read", "No such file"),
        (f"tls_ca={empty}", f"tls_ca={empty}", "has no certificate"),
        (f"tls_ca={secure.key}", f"tls_ca={secure.key}", "has no certificate"),
        (
            f"tls_ca={ca}&tls_certificate={certificate}&tls_key={certificate}",
            f"tls_key={certificate}",
            "has no private key",
        ),
        (
            f"tls_ca={ca}&tls_certificate={certificate}&tls_key={secret}",
            f"tls_key={secret}",
            "passphrase",
        ),
        (
            f"tls_ca={ca}&tls_certificate={certificate}&tls_key={secure.other_key}",
            f"tls_certificate={certificate}",
            f"does not go with tls_key={secure.other_key}",
        ),
        (f"tls_ca={ca}&tls_certificate={certificate}", "tls_certificate needs its tls_key"),
        (f"tls_certificate={certificate}&tls_key={secure.key}", "without tls_ca"),
    ):
        refused(idmatch.InvalidArgument, secure.address(options), *said)
