"""One sound log of each format."""

from __future__ import annotations

from pathlib import Path

import test_doors
from bags import write_bag

from gough.logs.recording import Recording


def sound_logs(folder: Path) -> list[tuple[Path, dict | None]]:
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
