"""Object code on disk, so that the second start of a program compiles nothing.

Files hold machine code that will be executed: the directory is created for its owner only, and one that belongs
to somebody else or that others may write to is not used. Each file names the key it was written for and carries a
checksum, so neither damage nor a file under another's name is executed; every failure of the file system means no
more than compiling again.
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
from gough.core.files import replacing

MAGIC = b"gough object 2\n"
LIMIT = 500_000_000  # [bytes]
PATIENCE = 30.0  # to wait for another process that compiles the same: the largest kernel takes 4 s [s]


def cache_directory() -> Path | None:
    """Directory of the cache: GOUGH_CACHE_DIR, else the platform's own place for caches; None if unusable."""
    try:
        chosen = os.environ.get("GOUGH_CACHE_DIR")
        directory = Path(chosen) if chosen else user_cache_path("gough", appauthor=False)
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if hasattr(os, "getuid"):  # on Windows the user's own folders are closed to others anyway
            status = directory.stat()
            if status.st_uid != os.getuid() or status.st_mode & 0o022:
                return None
    except (OSError, RuntimeError):  # RuntimeError: no home directory
        return None
    return directory


def _header(key: str, code: bytes) -> bytes:
    return MAGIC + key.encode() + b"\n" + hashlib.sha256(code).digest()


def read(key: str) -> bytes | None:
    """Return the stored object code, or None if there is none, it is damaged or belongs to another key."""
    directory = cache_directory()
    if directory is None:
        return None
    path = directory / f"{key}.o"
    try:
        data = path.read_bytes()
    except OSError:
        return None
    size = len(_header(key, b""))
    code = data[size:]
    if data[:size] != _header(key, code):
        return None
    with contextlib.suppress(OSError):
        os.utime(path)  # the oldest files go first
    return code


def write(key: str, code: bytes) -> None:
    """Store object code under its key, whole or not at all, and keep the directory below its limit."""
    directory = cache_directory()
    if directory is None:
        return
    with contextlib.suppress(OSError, OutputError):
        with replacing(directory / f"{key}.o") as file:
            file.write(_header(key, code) + code)
        _evict(directory)


@contextlib.contextmanager
def reserved(key: str) -> Iterator[None]:
    """Hold a key while its code is made; others wait, though not for ever: whoever holds it may have died."""
    directory, mine = cache_directory(), False
    path = None if directory is None else directory / f"{key}.lock"
    end = monotonic() + PATIENCE
    while path is not None and not mine and monotonic() < end:
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
        if mine and path is not None:
            with contextlib.suppress(OSError):
                path.unlink()


def _evict(directory: Path) -> None:
    """Delete the files unused for longest until the rest fits; another process may delete the same ones."""
    files = []
    for path in directory.iterdir():
        if path.suffix != ".lock":
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
