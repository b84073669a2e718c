"""Object code on disk, so that the second start of a program compiles nothing.

Files hold machine code that will be executed: the directory is created
for its owner only, and one that belongs to somebody else or that others
may write to is not used. Each file names the key it was written for and
carries a checksum, so neither damage nor a file under another's name is
executed; every failure of the file system means no more than compiling
again.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from time import monotonic, sleep
from typing import BinaryIO

from platformdirs import user_cache_path

from gough.core.errors import OutputError
from gough.core.files import replace_atomically

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

MAGIC = b"gough object 2\n"
CACHE_BYTES = 500_000_000  # largest size of the directory
# share of it that may be written between two looks at its size
CLEARED_SHARE = 0.01
# Longest wait for another process that compiles the same; the largest
# kernel takes 4 s. [s]
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

    A full directory is cleared now and then, not at each call: looking
    at all of its files can take longer than compiling. On average this
    happens once for every `CLEARED_SHARE` of the largest size that is
    written, by whatever processes.
    """
    directory = cache_directory()
    if directory is None:
        return
    with contextlib.suppress(OSError, OutputError):
        with replace_atomically(directory / f"{key}.o") as file:
            file.write(_header(key, code) + code)
        if random.random() * CLEARED_SHARE * CACHE_BYTES < len(code):
            _delete_oldest(directory)


def _delete_oldest(directory: Path) -> None:
    """Delete the files that have not been used for longest if the directory is too large."""
    # temporary files of a killed process are named after the object
    # file and count too
    with os.scandir(directory) as entries:
        status = {entry.path: entry.stat() for entry in entries if ".o" in entry.name}
    total = sum(each.st_size for each in status.values())
    for path in sorted(status, key=lambda path: status[path].st_mtime):
        if total <= CACHE_BYTES:
            return
        with contextlib.suppress(FileNotFoundError):  # another process may delete the same
            os.unlink(path)
        total -= status[path].st_size


@contextlib.contextmanager
def reserved(key: str) -> Iterator[None]:
    """Lock a key while its code is compiled; other processes wait for at most `LOCK_TIMEOUT`.

    The lock is the operating system's, which takes it from a process
    that dies.
    """
    directory = cache_directory()
    end = monotonic() + LOCK_TIMEOUT
    stream = None
    while directory is not None and stream is None and monotonic() < end:
        try:
            stream = _locked(directory / f"{key}.lock")
        except OSError:  # a folder that cannot be written, or a file system without locks
            break
        if stream is None:
            sleep(0.05)
    try:
        yield
    finally:
        if stream is not None:
            with contextlib.suppress(OSError):  # Windows deletes no open file
                os.unlink(stream.name)
            stream.close()


def _locked(path: Path) -> BinaryIO | None:
    """Return a lock file that this process has locked, None if another one has."""
    stream = open(path, "ab")  # noqa: SIM115  held until the lock is given back
    try:
        if sys.platform == "win32":
            msvcrt.locking(stream.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # the process that had it may have deleted the file in between
        if os.path.samestat(os.fstat(stream.fileno()), os.stat(path)):
            return stream
    except (BlockingIOError, PermissionError, FileNotFoundError):
        pass
    except OSError:
        stream.close()
        raise
    stream.close()
    return None
