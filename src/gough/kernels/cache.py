"""Object code on disk, so that the second start of a program compiles nothing.

Files hold machine code that will be executed: the directory is created for its owner only, and one that belongs
to somebody else or that others may write to is not used. Damage is found by a checksum; every failure of the
file system means no more than compiling again.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from pathlib import Path

MAGIC = b"gough object 1\n"
LIMIT = 500_000_000  # [bytes]


def cache_directory() -> Path | None:
    """Directory of the cache: GOUGH_CACHE_DIR, else XDG_CACHE_HOME/gough, else ~/.cache/gough; None if unusable."""
    try:
        chosen = os.environ.get("GOUGH_CACHE_DIR")
        base = os.environ.get("XDG_CACHE_HOME")
        directory = Path(chosen) if chosen else (Path(base) if base else Path.home() / ".cache") / "gough"
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if hasattr(os, "getuid"):
            status = directory.stat()
            if status.st_uid != os.getuid() or status.st_mode & 0o022:
                return None
    except (OSError, RuntimeError):  # RuntimeError: no home directory
        return None
    return directory


def read(key: str) -> bytes | None:
    """Return the stored object code, or None if there is none or it is damaged."""
    directory = cache_directory()
    if directory is None:
        return None
    path = directory / f"{key}.o"
    try:
        data = path.read_bytes()
    except OSError:
        return None
    head = len(MAGIC) + 32
    if data[:len(MAGIC)] != MAGIC or hashlib.sha256(data[head:]).digest() != data[len(MAGIC):head]:
        return None
    with contextlib.suppress(OSError):
        os.utime(path)  # the oldest files go first
    return data[head:]


def write(key: str, code: bytes) -> None:
    """Store object code under its key, whole or not at all, and keep the directory below its limit."""
    directory = cache_directory()
    if directory is None:
        return
    temporary = None
    try:
        handle, temporary = tempfile.mkstemp(prefix=f"{key[:16]}.", suffix=".part", dir=directory)
        with os.fdopen(handle, "wb") as file:
            file.write(MAGIC + hashlib.sha256(code).digest() + code)
        os.replace(temporary, directory / f"{key}.o")
        _evict(directory)
    except OSError:
        if temporary is not None:
            with contextlib.suppress(OSError):
                os.unlink(temporary)


def _evict(directory: Path) -> None:
    """Delete the files unused for longest until the rest fits; another process may delete the same ones."""
    files = []
    for path in directory.iterdir():
        if path.suffix in (".o", ".part"):
            with contextlib.suppress(OSError):
                status = path.stat()
                files.append((status.st_mtime, status.st_size, path))
    total = sum(size for _, size, _ in files)
    for _, size, path in sorted(files):
        if total <= LIMIT:
            return
        with contextlib.suppress(OSError):
            path.unlink()
        total -= size
