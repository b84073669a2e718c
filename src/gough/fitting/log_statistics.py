"""Sufficient statistics of logs as files that merge.

Many machines reduce many logs; the files are merged to the same bits
whatever machine made them. A file is an uncompressed `.npz` that NumPy
opens without Gough: its `facts` (JSON) say what it was made from, its
other arrays are those of `BlockStatistics`. Its name is its key, the
hash of robot, processing, parameters, source of Gough and log. So a
file is never out of date, and finished work is found by name.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gough.core.arrays import TINY, FloatArray, IntArray, check_shapes
from gough.core.documents import parse_json
from gough.core.errors import InvalidInput
from gough.core.files import MAX_UNPACKED_BYTES, Budget, load_arrays, read_bytes, replace_atomically
from gough.core.record import Record
from gough.core.statistics import chi2_tail
from gough.fitting.block_statistics import BlockStatistics, JointFactor
from gough.fitting.regression import merge

FILE_KIND = "gough-log-statistics"
FILE_FORMAT = 3
STORED_ARRAYS = ("blocks", "block_samples", "block_valid", "recording", "sums")
STORED_NAMES = ("rows", "row_units", "parameters", "units")


@dataclass(frozen=True, kw_only=True, eq=False)
class LogStatistics(Record):
    """One log, or several, reduced to what linear estimators need.

    Made from a robot, processing, parameters and the source of Gough;
    only statistics that agree in all of them merge.
    """

    made_from: Mapping[str, str]  # hashes by name
    logs: tuple[str, ...]  # hashes of the logs' contents, sorted
    sources: tuple[str, ...]  # names of the logs, in the same order
    statistics: BlockStatistics
    # sum over neighbouring valid samples of [W_t y_t]^T [W_t+1 y_t+1]
    # by row, (r, p + 1, p + 1); the autocorrelation of any residual
    # follows from it
    lagged: FloatArray
    pairs: IntArray  # number of neighbours of each row, (r,)

    def __post_init__(self) -> None:
        super().__post_init__()
        r = len(self.statistics.rows)
        c = len(self.statistics.parameters) + 1
        check_shapes(self, lagged=(r, c, c), pairs=(r,), sources=(len(self.logs),))

    @property
    def key(self) -> str:
        """The name of the file."""
        return key_of(self.made_from, self.logs)

    def whiteness(self, values: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the correlation of neighbouring residuals of values (p,), and its p-value, (r,).

        rho = (n^T L n / pairs) / (|R n|^2 / n_valid) with n = (-values, 1) and
        L the lagged products; in white noise pairs rho^2 is chi-squared with
        one degree of freedom.
        """
        extended = np.append(-values, 1.0)
        residual_norm = np.linalg.norm(self.statistics.factors @ extended, axis=1)
        variance = residual_norm**2 / np.maximum(self.statistics.n_valid, 1)
        lagged = (self.lagged @ extended @ extended) / np.maximum(self.pairs, 1)
        rho = lagged / np.maximum(variance, TINY)
        return rho, chi2_tail(self.pairs * rho**2, 1)

    def to_bytes(self) -> bytes:
        """Return the content of the file; the same statistics give the same bytes."""
        statistics = self.statistics
        arrays = {name: getattr(statistics, name) for name in STORED_ARRAYS}
        arrays["lagged"] = self.lagged
        arrays["pairs"] = self.pairs
        if statistics.joint is not None:
            arrays |= _joint_arrays(statistics.joint, len(statistics.rows))
        facts = {
            "format": FILE_KIND,
            "version": FILE_FORMAT,
            "made_from": dict(self.made_from),
            "logs": self.logs,
            "sources": self.sources,
            "repeats": statistics.repeats,
            **{name: getattr(statistics, name) for name in STORED_NAMES},
            "sha256": _digest(arrays),
        }
        stream = io.BytesIO()
        np.savez(
            stream,
            allow_pickle=False,
            facts=np.array(json.dumps(facts)),
            **arrays,
        )
        return stream.getvalue()

    def save(self, folder: str | Path) -> Path:
        """Write the file into a folder under its key, whole or not at all, and return its path."""
        path = Path(folder) / f"{self.key}.npz"
        with replace_atomically(path) as stream:
            stream.write(self.to_bytes())
        return path


def _joint_arrays(joint: Sequence[JointFactor], n_rows: int) -> dict[str, Any]:
    """Return the rows side by side as arrays of a file."""
    valid_rows = [np.isin(np.arange(n_rows), factor.valid_rows) for factor in joint]
    return {
        "joint_valid_rows": np.array(valid_rows),
        "joint_block": np.array([factor.block for factor in joint]),
        "joint_samples": np.array([factor.samples for factor in joint]),
        "joint_length": np.array([len(factor.stacked) for factor in joint]),
        "joint_stacked": np.concatenate([factor.stacked for factor in joint]),
    }


def key_of(made_from: Mapping[str, str], logs: Sequence[str]) -> str:
    """Return the hash that names the file of some logs."""
    text = json.dumps([FILE_KIND, FILE_FORMAT, dict(made_from), sorted(logs)], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _digest(arrays: Mapping[str, Any]) -> str:
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def load_log_statistics(source: str | Path | bytes, name: str = "") -> LogStatistics:
    """Read a file of log statistics, or its content, which messages call by the name."""
    label = name or ("log statistics" if isinstance(source, bytes) else str(source))
    try:
        content = source
        if not isinstance(content, bytes):
            content = read_bytes(content, MAX_UNPACKED_BYTES)
        arrays = dict(load_arrays(content, Budget(label, len(content))))
        facts = parse_json(str(arrays.pop("facts")))
        if facts["format"] != FILE_KIND or facts["version"] != FILE_FORMAT:
            raise ValueError(
                f"it holds {facts['format']} {facts['version']}, expected {FILE_KIND} {FILE_FORMAT}"
            )
        if facts["sha256"] != _digest(arrays):
            raise ValueError("its numbers do not match their checksum")
        statistics = _restored(facts, arrays)
        if not isinstance(source, bytes) and Path(source).stem != statistics.key:
            raise ValueError(
                f"its content belongs to {statistics.key[:12]}..., not to the name of the file"
            )
    except Exception as error:  # whatever a damaged file makes NumPy, zlib and the types raise
        raise InvalidInput(
            f"'{label}' is damaged or no file of log statistics: {error}; delete it and reduce "
            "the log again",
            path=label,
        ) from None
    return statistics


def _restored(facts: Mapping[str, Any], arrays: Mapping[str, Any]) -> LogStatistics:
    joint = None
    if "joint_stacked" in arrays:
        valid_rows = arrays["joint_valid_rows"]
        block = arrays["joint_block"]
        samples = arrays["joint_samples"]
        ends = np.cumsum(arrays["joint_length"])
        stacked = np.split(arrays["joint_stacked"], ends[:-1])
        factors = []
        for k, one in enumerate(stacked):
            factor = JointFactor(
                block=int(block[k]),
                valid_rows=np.flatnonzero(valid_rows[k]),
                samples=int(samples[k]),
                stacked=one,
            )
            factors.append(factor)
        joint = tuple(factors)
    names: dict[str, Any] = {name: tuple(facts[name]) for name in STORED_NAMES}
    statistics = BlockStatistics(
        **{name: arrays[name] for name in STORED_ARRAYS},
        **names,
        repeats=bool(facts["repeats"]),
        joint=joint,
    )
    return LogStatistics(
        statistics=statistics,
        lagged=arrays["lagged"],
        pairs=arrays["pairs"],
        made_from=dict(facts["made_from"]),
        logs=tuple(facts["logs"]),
        sources=tuple(facts["sources"]),
    )


def merge_log_statistics(first: LogStatistics, second: LogStatistics) -> LogStatistics:
    """Return two statistics as one; they must be made alike and have no log in common."""
    for name, one in first.made_from.items():
        two = second.made_from.get(name)
        if one != two:
            raise InvalidInput(
                f"{second.sources[0]} was reduced with another {name} than {first.sources[0]} "
                f"({str(two)[:12]}, {one[:12]}); reduce both alike",
                source=second.sources[0],
            )
    in_both = set(first.logs) & set(second.logs)
    if in_both:
        k = second.logs.index(min(in_both))
        raise InvalidInput(
            f"{second.sources[k]} would be counted twice; give each log once",
            source=second.sources[k],
        )
    logs = (*first.logs, *second.logs)
    sources = (*first.sources, *second.sources)
    ordered = sorted(zip(logs, sources))
    return LogStatistics(
        made_from=first.made_from,
        logs=tuple(log for log, _ in ordered),
        sources=tuple(source for _, source in ordered),
        statistics=merge(first.statistics, second.statistics),
        lagged=first.lagged + second.lagged,
        pairs=first.pairs + second.pairs,
    )


def merge_all(
    statistics: Sequence[Callable[[], LogStatistics]],
) -> LogStatistics:
    """Return many statistics as one, by a binary tree that only their number and order decide.

    The first 2^k of n > 2^k >= n / 2 make one branch, the others the
    other. At most log2(n) are held at a time, each loaded when its turn
    comes.
    """
    if not statistics:
        raise InvalidInput("there are no log statistics to merge")
    if len(statistics) == 1:
        return statistics[0]()
    half = 1 << (len(statistics) - 1).bit_length() - 1
    return merge_log_statistics(merge_all(statistics[:half]), merge_all(statistics[half:]))
