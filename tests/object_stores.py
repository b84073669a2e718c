"""Stores for tests: one in memory that fails, and a local S3 server in a process of its own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
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


@dataclass
class Server:
    """A local S3 server in a process of its own."""

    port: int
    process: subprocess.Popen[bytes]

    def stop(self) -> None:
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()


def start_server(port: int) -> Server:
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for _ in range(600):
        with socket.socket() as attempt:
            if attempt.connect_ex(("127.0.0.1", port)) == 0:
                return Server(port, process)
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
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    server = start_server(port)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.stop()


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
