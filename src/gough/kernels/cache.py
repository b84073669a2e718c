"""Object code on disk, so that the second start of a program compiles nothing.

Files hold machine code that will be executed: the directory is created for its owner only, and one
that belongs to somebody else or that others may write to is not used. Each file names the key it
was written for and carries a checksum, so neither damage nor a file under another's name is
executed; every failure of the file system means no more than compiling again.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from time import monotonic, sleep, time

from platformdirs import user_cache_path

from gough.core.errors import OutputError
from gough.core.files import replace_atomically

MAGIC = b"gough object 2\n"
LIMIT = 500_000_000  # [bytes]
# to wait for another process that compiles the same: the largest kernel takes 4 s [s]
PATIENCE = 30.0


def cache_directory() -> Path | None:
    """Directory of the cache: GOUGH_CACHE_DIR, else the platform's own place for caches; None if
    unusable.
    """
    try:
        chosen = os.environ.get("GOUGH_CACHE_DIR")
        directory = Path(chosen) if chosen else user_cache_path("gough", appauthor=False)
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = directory.stat()
    except (OSError, RuntimeError):  # RuntimeError: no home directory
        return None
    # on Windows the user's own folders are closed to others anyway
    closed = not hasattr(os, "getuid") or (
        status.st_uid == os.getuid() and not status.st_mode & 0o022
    )
    return directory if closed else None


def _header(key: str, code: bytes) -> bytes:
    return MAGIC + key.encode() + b"\n" + hashlib.sha256(code).digest()


def read(key: str) -> bytes | None:
    """Return the stored object code, or None if there is none, it is damaged or belongs to another
    key.
    """
    directory, size = cache_directory(), len(_header(key, b""))
    data = b""
    with contextlib.suppress(OSError):
        if directory is not None:
            data = (directory / f"{key}.o").read_bytes()
            os.utime(
                directory / f"{key}.o"
            )  # the oldest files go first; a read-only directory serves as well
    return data[size:] if data[:size] == _header(key, data[size:]) else None


def write(key: str, code: bytes) -> None:
    """Store object code under its key, whole or not at all; files unused for longest leave a
    directory that is full.
    """
    directory = cache_directory()
    if directory is None:
        return
    with contextlib.suppress(OSError, OutputError):
        with replace_atomically(directory / f"{key}.o") as file:
            file.write(_header(key, code) + code)
        found = [
            (path.stat(), path) for path in directory.glob("*.o*")
        ]  # and what a killed process left
        total = sum(status.st_size for status, _ in found)
        for status, path in sorted(found, key=lambda each: each[0].st_mtime):
            if total <= LIMIT:
                break
            path.unlink(missing_ok=True)  # another process may delete the same ones
            total -= status.st_size


@contextlib.contextmanager
def reserved(key: str) -> Iterator[None]:
    """Hold a key while its code is made; others wait, though not for ever: whoever holds it may
    have died.
    """
    directory, end, mine = cache_directory(), monotonic() + PATIENCE, False
    path = (directory or Path()) / f"{key}.lock"
    while directory is not None and not mine and monotonic() < end:
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL))
            mine = True
        except FileExistsError:
            with contextlib.suppress(OSError):
                if time() - path.stat().st_mtime > PATIENCE:
                    path.unlink()
            sleep(0.05)
        except OSError:
            break
    try:
        yield
    finally:
        if mine:
            with contextlib.suppress(OSError):
                path.unlink()
