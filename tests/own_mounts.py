"""Processes that see other file systems than this one: another machine, a disk that is full.

Linux lets a process have mounts of its own, also without rights (user namespaces); where that is
not allowed, the tests are skipped.
"""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest

OWN_MOUNTS = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c")


@cache
def mounts_are_allowed() -> bool:
    """Return whether processes may have mounts of their own here."""
    try:
        done = subprocess.run([*OWN_MOUNTS, "mount -t tmpfs tmpfs /mnt"], capture_output=True)
    except OSError:
        return False
    return done.returncode == 0


def require_own_mounts() -> None:
    if not mounts_are_allowed():
        pytest.skip("processes cannot have mounts of their own here")


def with_mounts(mounts: Sequence[str], command: Sequence[str]) -> list[str]:
    """Return the command of a process that does some mounts, for itself alone, before its work."""
    return [*OWN_MOUNTS, " && ".join([*mounts, f"exec {shlex.join(command)}"])]


def empty_folder(folder: Path) -> str:
    """Return the mount after which nothing is in a folder."""
    return f"mount -t tmpfs tmpfs {shlex.quote(str(folder))}"


def other_file(file: Path, replacement: Path) -> str:
    """Return the mount after which a file has the content of another one."""
    return f"mount --bind {shlex.quote(str(replacement))} {shlex.quote(str(file))}"


def small_disk(folder: Path, size: int) -> str:
    """Return the mount after which a folder is an empty disk of some bytes."""
    return f"mount -t tmpfs -o size={size} tmpfs {shlex.quote(str(folder))}"


def larger_disk(folder: Path, size: int) -> str:
    """Return the mount after which such a disk has more room."""
    return f"mount -o remount,size={size} {shlex.quote(str(folder))}"
