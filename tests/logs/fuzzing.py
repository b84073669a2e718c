"""Damaged logs of every format: a clear error or a recording, no hang, no crash, no flood of
memory.

python tests/logs/fuzzing.py 10000 [seed]
"""

from __future__ import annotations

import resource
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import test_doors
from bags import write_bag

from gough.core.errors import GoughError
from gough.logs.readers import read_recording
from gough.logs.recording import Recording
from gough.logs.survey import survey

LONGEST = 20  # [s] for one file
WORDS = [
    b"",
    b"0",
    b"-1",
    b"1e300",
    b"nan",
    b"inf",
    b",",
    b";",
    b"\t",
    b"\n",
    b"#",
    b'"',
    b"\0",
    b"\xff\xfe",
    b"[",
    b"x" * 70,
    b"\xff" * 8,
    b"\x7f" + b"\xff" * 7,
    b"2024-01-01T00:00:00",
    b"1_000",
    b"\r",
    b"9" * 400,
]


def seeds(folder: Path) -> list[tuple[Path, dict | None]]:
    """Write one sound log of each format; returns files with their descriptions."""
    found: list[tuple[Path, dict | None]] = []
    for write in (*test_doors.DOORS[:-1], as_plain, as_gough_npz, as_gough_csv):
        own = folder / write.__name__
        own.mkdir()
        description = write(own)
        found.append((next(own.iterdir()), description))
    names = [
        [f"/joint_states/{joint}.{kind}" for joint in test_doors.JOINTS]
        for kind in ("position", "effort")
    ]
    for storage in ("mcap", "db3", "bag"):
        own = folder / storage
        own.mkdir()
        path = write_bag(
            own,
            test_doors.TIME,
            test_doors.JOINTS,
            test_doors.POSITION,
            test_doors.EFFORT,
            storage=storage,
        )
        file = next(path.glob("*.db3")) if path.is_dir() else path
        found.append((file, test_doors.described("/joint_states/header.stamp", *names)))
    return found


def as_plain(path: Path) -> dict:
    test_doors.csv_of(path)
    return test_doors.described(*test_doors.NAMES)


def as_gough_npz(path: Path) -> None:
    log().save(path / "run.npz")


def as_gough_csv(path: Path) -> None:
    log().save(path / "run.csv.gz")


def log() -> Recording:
    return Recording.from_arrays(
        test_doors.JOINTS,
        time=test_doors.TIME,
        position=test_doors.POSITION,
        effort=test_doors.EFFORT,
        units={"position": "rad", "effort": "N m"},
    )


def damaged(content: bytes, rng: np.random.Generator) -> bytes:
    """Return a file with one to four injuries."""
    data = bytearray(content)
    for _ in range(int(rng.integers(1, 5))):
        size = len(data)
        at = (
            int(rng.integers(0, max(size, 1)))
            if rng.random() < 0.6
            else int(rng.integers(0, min(size, 400) + 1))
        )
        width = int(rng.integers(1, 60))
        kind = rng.integers(0, 7)
        if kind == 0 and at < size:
            data[at] ^= 1 << int(rng.integers(0, 8))
        elif kind == 1:
            del data[at : at + width]
        elif kind == 2:
            data[at:at] = data[at : at + width]
        elif kind == 3:
            del data[at:]
        elif kind == 4:
            data[at : at + int(rng.integers(0, 9))] = WORDS[int(rng.integers(len(WORDS)))]
        elif kind == 5:
            data[at : at + width] = rng.bytes(width)
        else:
            other = int(rng.integers(0, max(size, 1)))
            data[at : at + width] = data[other : other + width]
    return bytes(data)


def check(read: Callable[[], object]) -> str:
    """Return `read` or the error's type; anything but Gough's own errors comes through."""
    try:
        found = read()
    except GoughError as error:
        if len(str(error)) < 20:
            raise AssertionError(f"says too little: {error}") from error
        return type(error).__name__
    if isinstance(found, Recording) and not all(
        np.isfinite(c.values).all() for _, c in found.groups()
    ):
        raise AssertionError("numbers that are none")
    return "read"


def run(count: int, seed: int = 0) -> Counter[tuple[str, str]]:
    """Read so many damaged logs; returns how often each format was read or refused."""
    rng = np.random.default_rng(seed)
    outcomes: Counter[tuple[str, str]] = Counter()
    if hasattr(signal, "SIGALRM"):
        signal.signal(
            signal.SIGALRM, lambda *_: (_ for _ in ()).throw(TimeoutError("a log takes too long"))
        )
    with tempfile.TemporaryDirectory() as name:
        sound = seeds(Path(name))
        contents = [path.read_bytes() for path, _ in sound]
        for k in range(count):
            which = k % len(sound)
            path, description = sound[which]
            path.write_bytes(damaged(contents[which], rng))
            if hasattr(signal, "SIGALRM"):
                signal.alarm(LONGEST)
            try:
                outcomes[
                    path.parent.name, check(lambda p=path, d=description: read_recording(p, d))
                ] += 1
                if k % 3 == 0:
                    check(lambda p=path: survey(p))
            except BaseException:
                Path("damaged" + path.suffix).write_bytes(path.read_bytes())
                print(f"number {k} of seed {seed}: {path.parent.name}", file=sys.stderr)
                raise
            finally:
                if hasattr(signal, "SIGALRM"):
                    signal.alarm(0)
    return outcomes


if __name__ == "__main__":
    wanted, first = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    for (door, outcome), times in sorted(run(wanted, first).items()):
        print(f"{door:28s} {outcome:20s} {times}")
    print(f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10:.0f} MiB at most")
