"""Logs reduced to files that merge: what many machines make of many logs, put together to the same
bits.

A factor file is an uncompressed `.npz` that NumPy opens without Gough. Its `facts` (JSON) say what
it was made from, its other arrays are those of `Condensed`. Its name is its key: the hash of robot,
processing, parameters, version and log, so a file is never out of date, and work that is done is
found by name.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from gough.core.arrays import TINY, FloatArray, IntArray, check_shapes
from gough.core.documents import parse_json
from gough.core.errors import InvalidInput
from gough.core.files import replace_atomically
from gough.core.record import Record
from gough.core.statistics import chi2_tail
from gough.fitting.block_statistics import Condensed, Joint, merge

MARK, FORMAT = "gough-factor", 1
ARRAYS = ("factors", "counts", "sums", "pieces", "lengths", "recording")
FACTS = ("samples", "repeats", "rows", "row_units", "parameters", "units")
JOINT = ("present", "piece", "samples", "length")


@dataclass(frozen=True, kw_only=True, eq=False)
class Factor(Record):
    """One log, or several, reduced to what estimators need.

    It is made from a robot, processing, parameters and a version of Gough; only factors that agree
    in all of them merge. `lagged` is what the whiteness of any residual needs: sum_t [W_t y_t]^T
    [W_t+1 y_t+1] of each row over neighbours that both count.
    """

    made_from: Mapping[str, str]  # hashes, by name
    logs: tuple[str, ...]  # hashes of the logs' contents, sorted
    sources: tuple[str, ...]  # names of the logs, in the same order
    condensed: Condensed
    lagged: FloatArray  # (r, p + 1, p + 1)
    pairs: IntArray  # how many neighbours, (r,)

    def __post_init__(self) -> None:
        super().__post_init__()
        r, _, c = self.condensed.factors.shape
        check_shapes(self, lagged=(r, c, c), pairs=(r,), sources=(len(self.logs),))

    @property
    def key(self) -> str:
        """The name of its file."""
        return key_of(self.made_from, self.logs)

    def whiteness(self, values: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the correlation of neighbouring residuals that values (p,) leave, and its chance
        in white noise, (r,).

        rho = (n^T L n / pairs) / (|R n|^2 / counts) with n = (-values, 1), L `lagged`; pairs rho^2
        is chi-squared with one degree of freedom.
        """
        n = np.append(-values, 1.0)
        left = np.linalg.norm(self.condensed.factors @ n, axis=1) ** 2 / np.maximum(
            self.condensed.counts, 1
        )
        rho = (self.lagged @ n @ n) / np.maximum(self.pairs, 1) / np.maximum(left, TINY)
        return rho, chi2_tail(self.pairs * rho**2, 1)

    def to_bytes(self) -> bytes:
        """Return the content of its file; the same factor gives the same bytes."""
        c = self.condensed
        arrays = {name: getattr(c, name) for name in ARRAYS} | {
            "lagged": self.lagged,
            "pairs": self.pairs,
        }
        if c.joint is not None:
            parts = [
                (np.isin(np.arange(len(c.rows)), j.present), j.piece, j.samples, len(j.data))
                for j in c.joint
            ]
            arrays |= {f"joint_{name}": np.array(own) for name, own in zip(JOINT, zip(*parts))}
            arrays["joint_data"] = np.concatenate([j.data for j in c.joint])
        facts = {
            "format": MARK,
            "version": FORMAT,
            "made_from": dict(self.made_from),
            "logs": self.logs,
            "sources": self.sources,
            **{name: getattr(c, name) for name in FACTS},
            "sha256": _digest(arrays),
        }
        stream = io.BytesIO()
        np.savez(stream, allow_pickle=False, facts=np.array(json.dumps(facts)), **arrays)
        return stream.getvalue()

    def save(self, folder: str | Path) -> Path:
        """Write it into a folder under its key, whole or not at all, and return where."""
        path = Path(folder) / f"{self.key}.npz"
        with replace_atomically(path) as stream:
            stream.write(self.to_bytes())
        return path


def key_of(made_from: Mapping[str, str], logs: Sequence[str]) -> str:
    """Return the hash that names a factor."""
    text = json.dumps([MARK, FORMAT, dict(made_from), sorted(logs)], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _digest(arrays: Mapping[str, Any]) -> str:
    found = hashlib.sha256()
    for name in sorted(arrays):
        found.update(f"{name} {arrays[name].dtype.str} {arrays[name].shape}\n".encode())
        found.update(np.ascontiguousarray(arrays[name]).tobytes())
    return found.hexdigest()


def load_factor(source: str | Path | bytes, name: str = "") -> Factor:
    """Read a factor file, or its content, which messages call by the name."""
    label = name or ("factor" if isinstance(source, bytes) else str(source))
    try:
        data = source if isinstance(source, bytes) else Path(source).read_bytes()
        with np.load(io.BytesIO(data), allow_pickle=False) as stored:
            arrays = {key: stored[key] for key in stored.files}
        facts = parse_json(str(arrays.pop("facts")))
        if facts["format"] != MARK or facts["version"] != FORMAT:
            raise ValueError(
                f"it holds {facts['format']} {facts['version']}, expected {MARK} {FORMAT}"
            )
        if facts["sha256"] != _digest(arrays):
            raise ValueError("its numbers do not match their checksum")
        factor = _restored(facts, arrays)
        if not isinstance(source, bytes) and Path(source).stem != factor.key:
            raise ValueError(
                f"it is not what its name says, its content belongs to {factor.key[:12]}..."
            )
    except OSError as error:
        raise InvalidInput(
            f"'{label}' cannot be read: {error.strerror or error}", path=label
        ) from None
    except (
        InvalidInput,
        LookupError,
        TypeError,
        ValueError,
        EOFError,
        AttributeError,
        RuntimeError,
        BadZipFile,
    ) as error:
        raise InvalidInput(
            f"'{label}' is damaged or no factor file: {error}; delete it and condense the log "
            f"again",
            path=label,
        ) from None
    return factor


def _restored(facts: Mapping[str, Any], arrays: Mapping[str, Any]) -> Factor:
    joint = None
    if "joint_data" in arrays:
        present, piece, samples, length = (arrays[f"joint_{name}"] for name in JOINT)
        data = np.split(arrays["joint_data"], np.cumsum(length)[:-1])
        joint = tuple(
            Joint(
                piece=int(piece[k]),
                samples=int(samples[k]),
                present=np.flatnonzero(present[k]),
                data=own,
            )
            for k, own in enumerate(data)
        )
    names: dict[str, Any] = {name: tuple(facts[name]) for name in FACTS[2:]}
    condensed = Condensed(
        **{name: arrays[name] for name in ARRAYS},
        **names,
        samples=int(facts["samples"]),
        repeats=bool(facts["repeats"]),
        joint=joint,
    )
    return Factor(
        condensed=condensed,
        lagged=arrays["lagged"],
        pairs=arrays["pairs"],
        made_from=dict(facts["made_from"]),
        logs=tuple(facts["logs"]),
        sources=tuple(facts["sources"]),
    )


def merge_factors(first: Factor, second: Factor) -> Factor:
    """Return two factors as one, made alike and without a log in common."""
    for name in first.made_from:
        one, two = first.made_from[name], second.made_from.get(name)
        if one != two:
            raise InvalidInput(
                f"{second.sources[0]} was condensed with another {name} than {first.sources[0]} "
                f"({str(two)[:12]}, {one[:12]}); condense both alike",
                source=second.sources[0],
            )
    twice = set(first.logs) & set(second.logs)
    if twice:
        k = second.logs.index(min(twice))
        raise InvalidInput(
            f"{second.sources[k]} would be counted twice; give each log once",
            source=second.sources[k],
        )
    every = sorted(zip((*first.logs, *second.logs), (*first.sources, *second.sources)))
    return Factor(
        made_from=first.made_from,
        logs=tuple(log for log, _ in every),
        sources=tuple(source for _, source in every),
        condensed=merge(first.condensed, second.condensed),
        lagged=first.lagged + second.lagged,
        pairs=first.pairs + second.pairs,
    )


def merge_all(factors: Sequence[Callable[[], Factor]]) -> Factor:
    """Return many factors as one, by a binary tree that only their number and order decide.

    The first 2^k of n > 2^k >= n / 2 make one branch, the others the other; at most log2(n) factors
    are held at a time, each got when its turn comes.
    """
    if not factors:
        raise InvalidInput("there is no factor to merge")
    if len(factors) == 1:
        return factors[0]()
    half = 1 << (len(factors) - 1).bit_length() - 1
    return merge_factors(merge_all(factors[:half]), merge_all(factors[half:]))
