"""Stores for tests: one in memory that fails, and a local S3 server in a process of its own, with a
connection that breaks.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import socketserver
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFile, MemoryFileSystem

UNLIMITED = 10**9  # bytes that a store gives before it fails


class FailingStore(MemoryFileSystem):
    """A store in memory that fails once more bytes were read than it may give."""

    protocol = "failing"
    remaining: ClassVar[int] = UNLIMITED

    def _open(self, path: str, mode: str = "rb", **options: object) -> object:
        stream = super()._open(path, mode, **options)
        if mode != "rb":
            return stream
        return FailingStream(stream.getvalue())


class FailingStream(MemoryFile):
    """A stream of the failing store."""

    def __init__(self, content: bytes) -> None:
        super().__init__(data=content)

    def read(self, count: int = -1) -> bytes:
        content = super().read(count)
        FailingStore.remaining -= len(content)
        if FailingStore.remaining < 0:
            raise OSError("connection reset by peer")
        return bytes(content)


@contextmanager
def failing_store() -> Iterator[type[FailingStore]]:
    """The protocol `failing://`, without a limit at first."""
    fsspec.register_implementation("failing", FailingStore, clobber=True)
    FailingStore.remaining = UNLIMITED
    yield FailingStore
    FailingStore.remaining = UNLIMITED


class Connection(socketserver.ThreadingTCPServer):
    """A connection to a local server that breaks, for good, once it has carried some bytes."""

    daemon_threads = True

    def __init__(self, server_port: int) -> None:
        super().__init__(("127.0.0.1", 0), _Forwarded)
        self.server_port = server_port
        self.remaining = UNLIMITED
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def handle_error(self, request: object, client_address: object) -> None:
        """Print nothing: the client sees that the connection broke."""


class _Forwarded(socketserver.BaseRequestHandler):
    """One client of a connection."""

    server: Connection

    def handle(self) -> None:
        with socket.create_connection(("127.0.0.1", self.server.server_port)) as upstream:
            other = {self.request: upstream, upstream: self.request}
            while True:
                for source in select.select(list(other), [], [])[0]:
                    content = source.recv(2**14)
                    if source is upstream:
                        self.server.remaining -= len(content)
                    if not content or self.server.remaining < 0:
                        return
                    other[source].sendall(content)


@dataclass
class Server:
    """A local S3 server in a process of its own, and the connection to it."""

    port: int
    process: subprocess.Popen[bytes]
    connection: Connection

    def stop(self) -> None:
        if self.process.poll() is None:
            os.kill(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def start_again(self) -> None:
        self.process = start_process(self.port)


def start_process(port: int) -> subprocess.Popen[bytes]:
    """Start the server itself."""
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for _ in range(600):
        with socket.socket() as attempt:
            if attempt.connect_ex(("127.0.0.1", port)) == 0:
                return process
        time.sleep(0.1)
    process.kill()
    raise TimeoutError("the S3 server did not start")


@contextmanager
def s3_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A server at which `s3://` addresses of this process and its workers are looked for."""
    pytest.importorskip("s3fs")
    pytest.importorskip("moto.server")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    connection = Connection(port)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{connection.port}")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    server = Server(port, start_process(port), connection)
    try:
        yield server
    finally:
        server.stop()
        connection.shutdown()
        connection.server_close()


def put_objects(bucket: str, contents: Mapping[str, bytes]) -> list[str]:
    """Put objects into a new bucket, and return their addresses."""
    import s3fs

    s3fs.S3FileSystem.clear_instance_cache()  # of a server of an earlier test
    system = s3fs.S3FileSystem(skip_instance_cache=True)
    system.mkdir(bucket)
    addresses = []
    for name, content in contents.items():
        system.pipe_file(f"{bucket}/{name}", content)
        addresses.append(f"s3://{bucket}/{name}")
    return addresses
