"""Identity of the code: a hash of the source of the package."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

# bytes before the code: magic number, flags, time and size of the
# source
BYTECODE_HEADER = 16


@cache
def source_hash() -> str:
    """Return the SHA-256 of all modules and robots of the package, as they lie on this machine.

    Two installations with the same hash compute the same, whatever
    version they state. An installation of bytecode without sources is
    identified by its bytecode.
    """
    digest = hashlib.sha256()
    for name, content in sorted(_sources(files("gough"), "")):
        digest.update(f"{name} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()


def _sources(folder: Traversable, prefix: str) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of the files in a folder of the package, line ends as on Unix."""
    entries = {entry.name: entry for entry in folder.iterdir()}
    for name, entry in entries.items():
        if entry.is_dir():
            if name != "__pycache__":
                yield from _sources(entry, f"{prefix}{name}/")
        elif name.endswith((".py", ".toml")):  # modules and robots
            yield prefix + name, entry.read_bytes().replace(b"\r\n", b"\n")
        elif name.endswith(".pyc") and name[:-1] not in entries:
            yield prefix + name, entry.read_bytes()[BYTECODE_HEADER:]
