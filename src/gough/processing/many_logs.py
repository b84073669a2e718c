"""From log files to factor files: one task a log, done anywhere, kept for the next start."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import Literal

import numpy as np

from gough import __version__
from gough.core.blas import one_blas_thread
from gough.core.documents import parse_json
from gough.core.errors import GoughError, InvalidInput, InvalidRecording
from gough.core.executors import Executor
from gough.core.files import write_text
from gough.core.notices import Notice
from gough.core.options import merge_settings
from gough.core.parameters import BaseParameters
from gough.engine import Model, base_parameters
from gough.fitting.log_statistics import LogStatistics, key_of, load_log_statistics, merge_all
from gough.fitting.regression import Regression, block_statistics
from gough.logs.readers import RecordingSource, log_and_description, open_recording, read_recording
from gough.logs.recording import Recording
from gough.mechanism import load_robot, robot_text
from gough.processing.pipeline import regression_blocks
from gough.processing.settings import PERIODIC, Processing

WHOLE = (
    2**25
)  # bytes of a log up to which it is read whole, checked and put on an even clock like any other
# what was known of a log when it was condensed, by path: size and time of change, hash
INDEX = "index.json"
OFTEN = 200  # logs after which the index is written
Bad = Literal["refuse", "skip"]


@dataclass(frozen=True, kw_only=True)
class Job:
    """How logs are statistics: plain text, which any process understands."""

    robot: str  # name or path of the robot file, which must be the same file everywhere
    robot_hash: str  # of its text
    processing: str  # complete settings, as JSON
    tie_legs: bool = False
    payloads: tuple[str, ...] = ()
    gains: str = "null"  # drive gains by joint, as JSON; `null` for the robot file's
    joint: bool = False  # keep the rows side by side
    version: str = __version__

    @classmethod
    def of(
        cls,
        robot: str,
        processing: Processing,
        *,
        gains: Mapping[str, float] | None = None,
        tie_legs: bool = False,
        payloads: Sequence[str] = (),
        joint: bool = False,
    ) -> Job:
        """Return the job of a robot file and a complete processing."""
        if not processing.complete:
            raise InvalidInput(
                "factors need a complete processing: choose it first, on a sample of the logs"
            )
        path = str(Path(robot).resolve()) if Path(robot).is_file() else robot
        return cls(
            robot=path,
            robot_hash=_hash(robot_text(path)[0]),
            processing=_text(processing.to_dict()),
            tie_legs=tie_legs,
            payloads=tuple(payloads),
            joint=joint,
            gains=_text(None if gains is None else dict(gains)),
        )

    @property
    def settings(self) -> Processing:
        """The processing."""
        return merge_settings(Processing, None, parse_json(self.processing))

    @property
    def made_from(self) -> dict[str, str]:
        """What factors of this job have in common."""
        return {
            "robot": self.robot_hash,
            "processing": _hash(self.processing),
            "version": self.version,
            "parameters": _hash(_text([self.tie_legs, self.payloads, self.gains, self.joint])),
        }


def _text(value: object) -> str:
    return json.dumps(value, sort_keys=True)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@lru_cache(maxsize=4)
def robot_of(job: Job) -> tuple[Model, BaseParameters]:
    """Return the compiled robot of a job and its base parameters, once for each process."""
    if job.version != __version__:
        raise InvalidInput(
            f"this worker has version {__version__} of Gough, the work is for {job.version}; "
            f"install "
            "the same version everywhere"
        )
    if _hash(robot_text(job.robot)[0]) != job.robot_hash:
        raise InvalidInput(
            f"the robot file '{job.robot}' of this worker is not the one the work is for; give all "
            "workers the same file"
        )
    model = Model(load_robot(job.robot))
    return model, base_parameters(model, tie_legs=job.tie_legs, payloads=job.payloads)


def log_hash(log: str) -> str:
    """Return the hash of a log's content and its description (`log.csv@its.toml`); of a folder that
    of its files.
    """
    found = hashlib.sha256()
    for path in map(Path, filter(None, log_and_description(log))):
        inside = {
            file.relative_to(path): file for file in sorted(path.rglob("*")) if file.is_file()
        }
        for name, file in inside.items() if path.is_dir() else [("", path)]:
            found.update(f"{name}\n".encode())
            with open(file, "rb") as stream:
                while block := stream.read(2**20):
                    found.update(block)
    return found.hexdigest()


def name_of(log: str) -> str:
    """Return the name of a log's file, without folder and description."""
    return Path(log_and_description(log)[0]).name


def opened(log: str, *, averaged: bool = False) -> Recording | RecordingSource:
    """Return a log, its samples left in the file if that is large and may be read in blocks."""
    file, description = log_and_description(log)
    if Path(file).is_file() and Path(file).stat().st_size > WHOLE and not averaged:
        try:
            return open_recording(file, description)
        except InvalidRecording:
            pass  # needs resampling: read whole, or refused there
    return read_recording(file, description)


@one_blas_thread
def factor_of(work: tuple[Job, str]) -> bytes:
    """Condense one log; returns the content of its factor file."""
    job, log = work
    model, base = robot_of(job)
    digest, source = log_hash(log), opened(log, averaged=job.settings.method in PERIODIC)
    if source.payload not in (None, *job.payloads):
        raise InvalidRecording(
            f"{source.source}: carries '{source.payload}', which is not among the payloads of this "
            f"job ({', '.join(job.payloads) or 'none'})",
            source=source.source,
        )
    rows, columns = len(model.rows), len(base) + 1
    lagged, pairs = (
        np.zeros((rows, columns, columns)),
        np.zeros(rows, np.int64),
    )  # sums over neighbouring equations

    def seen() -> Iterator[Regression]:
        nonlocal lagged, pairs
        last = None
        for block in regression_blocks(
            model, source, base, job.settings, gains=parse_json(job.gains)
        ):
            data, counts = block.stacked(), block.valid
            if last is not None:
                data, counts = np.concatenate([last[0], data]), np.concatenate([last[1], counts])
            last = data[-1:], counts[-1:]
            lagged += np.einsum("tri,trj->rij", data[:-1], data[1:], optimize=True)
            pairs += (counts[:-1] & counts[1:]).sum(axis=0)
            yield block

    statistics = block_statistics(seen(), joint=job.joint)
    return LogStatistics(
        made_from=job.made_from,
        logs=(digest,),
        sources=(name_of(log),),
        statistics=statistics,
        lagged=lagged,
        pairs=pairs,
    ).to_bytes()


@dataclass(frozen=True, kw_only=True)
class Collected:
    """The factors of many logs, and what did not become one."""

    folder: Path  # of the factor files
    keys: Mapping[
        str, str
    ]  # of the factors, by path of the log, in the order of paths; without duplicates
    bad: Mapping[str, str] = field(default_factory=dict)  # what is wrong with the others, by path
    twice: Mapping[str, str] = field(
        default_factory=dict
    )  # logs that are copies of another one, which is named
    skipped: int = 0  # how many were there already

    def merged(self) -> LogStatistics:
        """Return the factor of all logs, merged in the order of their paths."""
        return merge_all(
            [partial(load_log_statistics, self.folder / f"{key}.npz") for key in self.keys.values()]
        )

    @property
    def notices(self) -> tuple[Notice, ...]:
        """Return a notice for each log that is not used."""
        notices = []
        for log, reason in self.bad.items():
            text = f"left out: {reason}"
            notices.append(Notice(rule="left out", level="info", where=log, text=text))
        for log, first in self.twice.items():
            text = f"a copy of {first}, used once"
            notices.append(Notice(rule="copy", level="info", where=log, text=text))
        return tuple(notices)


def collect(
    job: Job,
    logs: Sequence[str],
    folder: str | os.PathLike[str],
    executor: Executor,
    *,
    bad: Bad = "refuse",
    progress: Callable[[float], None] | None = None,
) -> Collected:
    """Condense logs into factor files of a folder; those that are there already are not made again.

    A log whose path, size and time of change are those of an earlier start is taken as the same.

    Args:
        logs: Paths, `log.csv@its.toml` with a description of its own.
        bad: What to do about logs that cannot be condensed, once all others are: raise, or leave
            them out.
        progress: Called with the fraction done, over all workers.

    Raises:
        InvalidRecording: Some logs are no logs of this robot, all are named; or none is left.
        OutputError: The folder cannot be written; what was written before is there for the next
            start.
    """
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    index, paths, made = _index(place), sorted(set(logs)), job.made_from
    hashes: dict[str, str] = {}
    wrong: dict[str, str] = {}
    for path in paths:
        stamp, digest = index.get(path, ("", ""))
        if stamp and stamp == _stamp(path) and (place / f"{key_of(made, [digest])}.npz").is_file():
            hashes[path] = digest
    todo, known = [path for path in paths if path not in hashes], len(hashes)
    try:
        for k, (number, result) in enumerate(
            executor.run(factor_of, [(job, path) for path in todo])
        ):
            path = todo[number]
            if isinstance(result, bytes):
                factor = load_log_statistics(result, path)
                factor.save(place)
                hashes[path] = factor.logs[0]
                index[path] = (_stamp(path), factor.logs[0])
            elif isinstance(result, GoughError | OSError):
                wrong[path] = str(result)
            else:
                raise result
            if k % OFTEN == OFTEN - 1:
                write_text(place / INDEX, _text(index))
            if progress is not None:
                progress((known + k + 1) / len(paths))
    finally:
        write_text(place / INDEX, _text(index))
    first: dict[str, str] = {}
    for path in sorted(hashes):
        first.setdefault(hashes[path], path)
    wrong = dict(sorted(wrong.items()))
    if wrong and (bad == "refuse" or not first):
        raise InvalidRecording(
            f"{len(wrong)} of {len(paths)} logs cannot be used:\n  "
            + "\n  ".join(f"{path}: {why}" for path, why in wrong.items())
            + "\nremove them, or leave out what cannot be used with `bad='skip'`; the others are "
            "done and kept",
            logs=list(wrong),
        )
    twice = {
        path: first[digest] for path, digest in sorted(hashes.items()) if first[digest] != path
    }
    return Collected(
        folder=place,
        keys={path: key_of(made, [digest]) for digest, path in first.items()},
        bad=wrong,
        twice=twice,
        skipped=known,
    )


def _stamp(log: str) -> str:
    """Return size and time of change of a log and its description; empty of a folder, or where
    there is none.
    """
    files = [Path(name) for name in log_and_description(log) if name]
    if not all(file.is_file() for file in files):
        return ""
    return " ".join(f"{status.st_size} {status.st_mtime_ns}" for status in map(os.stat, files))


def _index(folder: Path) -> dict[str, tuple[str, str]]:
    """Return what is known of logs; a file that cannot be read means no more than condensing
    again.
    """
    try:
        return {
            str(path): (str(stamp), str(digest))
            for path, (stamp, digest) in parse_json(
                (folder / INDEX).read_text(encoding="utf-8")
            ).items()
        }
    except (OSError, GoughError, ValueError, TypeError, AttributeError):
        return {}
