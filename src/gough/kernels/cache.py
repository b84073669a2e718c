"""Object code on disk, so that the second start of a program compiles nothing.

Files hold machine code that will be executed: the directory is created for its owner only,
and one that belongs to somebody else or that others may write to is not used. Each file
names the key it was written for and carries a checksum, so neither damage nor a file under
another's name is executed; every failure of the file system means no more than compiling
again.
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
CACHE_BYTES = 500_000_000  # largest size of the directory
# Longest wait for another process that compiles the same; the largest kernel takes 4 s. [s]
LOCK_TIMEOUT = 30.0


def cache_directory() -> Path | None:
    """Return the directory of the cache, or None if it cannot be used safely.

    It is GOUGH_CACHE_DIR, or the platform's directory for caches.
    """
    try:
        chosen = os.environ.get("GOUGH_CACHE_DIR")
        directory = Path(chosen) if chosen else user_cache_path("gough", appauthor=False)
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = directory.stat()
    except (OSError, RuntimeError):  # RuntimeError: no home directory
        return None
    if not hasattr(os, "getuid"):  # on Windows the folders of a user are closed to others
        return directory
    private = status.st_uid == os.getuid() and not status.st_mode & 0o022
    return directory if private else None


def _header(key: str, code: bytes) -> bytes:
    """Return the header of a file: format, key and checksum of the code."""
    return MAGIC + key.encode() + b"\n" + hashlib.sha256(code).digest()


def read(key: str) -> bytes | None:
    """Return the stored object code of a key, or None if there is none or it is damaged."""
    directory = cache_directory()
    if directory is None:
        return None
    path = directory / f"{key}.o"
    content = b""
    with contextlib.suppress(OSError):
        content = path.read_bytes()
        os.utime(path)  # the oldest files are deleted first; fails in a read-only directory
    header_length = len(_header(key, b""))
    header = content[:header_length]
    code = content[header_length:]
    return code if header == _header(key, code) else None


def write(key: str, code: bytes) -> None:
    """Store object code under its key, completely or not at all.

    Files that have not been used for longest are deleted if the directory is full.
    """
    directory = cache_directory()
    if directory is None:
        return
    with contextlib.suppress(OSError, OutputError):
        with replace_atomically(directory / f"{key}.o") as file:
            file.write(_header(key, code) + code)
        # temporary files of a killed process match the pattern too
        status = {path: path.stat() for path in directory.glob("*.o*")}
        total = sum(each.st_size for each in status.values())
        for path in sorted(status, key=lambda path: status[path].st_mtime):
            if total <= CACHE_BYTES:
                break
            path.unlink(missing_ok=True)  # another process may delete the same file
            total -= status[path].st_size


@contextlib.contextmanager
def reserved(key: str) -> Iterator[None]:
    """Lock a key while its code is compiled.

    Other processes wait, but not for ever: the process that locked it may have died.
    """
    directory = cache_directory()
    path = (directory or Path()) / f"{key}.lock"
    end = monotonic() + LOCK_TIMEOUT
    locked = False
    while directory is not None and not locked and monotonic() < end:
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL))
            locked = True
        except FileExistsError:
            with contextlib.suppress(OSError):
                if time() - path.stat().st_mtime > LOCK_TIMEOUT:
                    path.unlink()
            sleep(0.05)
        except OSError:
            break
    try:
        yield
    finally:
        if locked:
            with contextlib.suppress(OSError):
                path.unlink()
