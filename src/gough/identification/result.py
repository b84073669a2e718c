"""The outcome of an identification: parameters, what they were found from, and how well they
predict.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from textwrap import shorten
from typing import Any, get_type_hints
from zipfile import BadZipFile

import numpy as np

from gough.core.arrays import BoolArray, FloatArray
from gough.core.display import check_type, stacked_axes
from gough.core.documents import parse_json, plain, restored
from gough.core.errors import InvalidInput
from gough.core.files import locate_written, write_together
from gough.core.names import Parameter
from gough.core.notices import Notice, ResultLevel, level_of, notice_lines, ordered
from gough.core.parameters import BaseParameters
from gough.core.record import Columns, Record
from gough.engine import Model, Robot, as_model, standard_from_base
from gough.fitting.estimate import Enclosure, Estimate
from gough.fitting.regression import Regression
from gough.identification.constants import FittedConstants
from gough.identification.diagnosis import Diagnosis
from gough.identification.experiment import Experiment, known_effort
from gough.identification.structures import ModelChoice
from gough.identification.validation import Validation
from gough.mechanism.terms import TERMS, JointState
from gough.processing import Processing, ProcessingChoice

RESULT_FORMAT = 3
MAX_PLOTTED_SAMPLES = 4000  # samples kept for pictures
RESULT_FILE, FITS_FILE = "estimate.json", "fits.npz"
FIT_ARRAYS = ("time", "measured", "predicted", "q", "used")


@dataclass(frozen=True, kw_only=True, eq=False)
class Fit(Record):
    """Measured and predicted efforts of one recording, for pictures, (t, r). [row unit]"""

    label: str  # `identification` or `held-out`, with the recording's name
    held_out: bool
    time: FloatArray
    measured: FloatArray
    predicted: FloatArray
    q: FloatArray  # all coordinates, (t, n), for the moving picture [m or rad]
    used: BoolArray  # for the estimate or its validation; those near reversals were not


def fits_of(
    experiment: Experiment, predict: Callable[[Regression], FloatArray], *, held_out: bool = False
) -> tuple[Fit, ...]:
    """Return measured and predicted efforts of each log, thinned, with the equations that count
    marked as used.
    """
    fits = []
    for log, part in zip(experiment.processed, experiment.regressions):
        shown = part.take(slice(None, None, max(1, len(part) // MAX_PLOTTED_SAMPLES)))
        assert shown.time is not None
        assert shown.sample is not None
        known = known_effort(shown, experiment.known)
        fits.append(
            Fit(
                label=f"{'held-out' if held_out else 'identification'}: {log.source}",
                held_out=held_out,
                time=shown.time,
                measured=shown.effort + known,
                predicted=predict(shown) + known,
                q=log.motion.q[shown.sample - log.sample[0]],
                used=shown.valid,
            )
        )
    return tuple(fits)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Identification(Record):
    """Parameters of a robot with uncertainty, validation and what led to them."""

    robot: str  # name, or path of its file
    estimator: str  # which of `estimates` is the result
    estimate: Estimate  # base parameters, and drive gains and payload parameters if asked
    base: BaseParameters
    tied: bool  # legs were
    estimates: Mapping[str, Estimate] = field(default_factory=dict)
    enclosures: Mapping[str, Enclosure] = field(default_factory=dict)  # guaranteed boxes by name
    validation: Validation
    # all that the user should know: errors, warnings, info
    notices: tuple[Notice, ...] = ()
    # faults that explain the residual, where there are warnings or errors
    diagnosis: Diagnosis | None = None
    nominal_gains: Mapping[str, float] = field(
        default_factory=dict
    )  # that turned currents into efforts, by joint
    known: Mapping[str, float] = field(
        default_factory=dict
    )  # payload parameters, from which gains were found
    bodies: Mapping[str, tuple[float, ...]] = field(
        default_factory=dict
    )  # possible ones [kg, kg m, kg m2]
    joint_terms: Mapping[str, float] = field(default_factory=dict)  # coefficients that go with them
    constants: FittedConstants = field(default_factory=FittedConstants)
    fits: tuple[Fit, ...] = ()
    quality: Mapping[str, Mapping[str, float]] = field(
        default_factory=dict
    )  # figures of the data by log
    history: tuple[str, ...] = ()  # of the choice of essential parameters, in words
    settings: Mapping[str, Any] = field(
        default_factory=dict
    )  # every option: the same logs give the same result
    choice: ProcessingChoice | None = None  # how logs were processed, and what that was chosen from
    logs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # names by use
    digests: Mapping[str, str] = field(default_factory=dict)  # SHA-256 by the names in `quality`
    structures: ModelChoice | None = None
    beside: tuple[
        str, ...
    ] = ()  # names of the files that were saved with it: the robot file, a study

    def __post_init__(self) -> None:
        object.__setattr__(self, "notices", ordered(self.notices))
        super().__post_init__()

    def __repr__(self) -> str:
        return (
            f"<Identification of {self.headline}; {len(self.estimate)} parameters by "
            f"{self.estimator}>"
        )

    @property
    def level(self) -> ResultLevel:
        """The highest level of the notices; `ok` if there is only info."""
        return level_of(self.notices)

    @property
    def headline(self) -> str:
        """Robot, level and prediction in one sentence, with the rules that warn."""
        rules = [n.rule for n in self.notices if n.level != "info" and n.rule != "not validated"]
        sentence = f"{self.robot}: {self.level.upper()} - {self.validation.headline}"
        if rules:
            sentence += f"; see {', '.join(dict.fromkeys(rules))}"
        return sentence

    def table(self) -> Columns:
        """Return the table of the estimate that is the result."""
        return self.estimate.table()

    def plot(self) -> Any:
        """Draw measured and predicted efforts, a panel for each log and row; returns the axes."""
        shown = [(fit, j) for fit in self.fits for j in range(len(self.estimate.rows))]
        axes = stacked_axes(
            [
                f"{fit.label}: {self.estimate.rows[j]} [{self.estimate.row_units[j]}]"
                for fit, j in shown
            ],
            1.5,
            share=False,
        )
        for each, (fit, j) in zip(axes, shown):
            each.plot(fit.time, fit.measured[:, j], color="0.6", label="measured")
            each.plot(fit.time, fit.predicted[:, j], linewidth=1, label="predicted")
            each.plot(
                fit.time, fit.measured[:, j] - fit.predicted[:, j], linewidth=0.7, label="residual"
            )
        for each in axes[:1]:
            each.legend(loc="upper right", fontsize="small")
        return axes

    def plot_friction(self, robot: Robot | None = None, *, speed: float = 1.0) -> Any:
        """Draw the friction of each joint over its velocity, with two standard deviations; returns
        the axes.

        Terms that depend on other joints are left out; lags are settled. A robot is needed where
        its file has terms of its own. `speed` is the largest velocity. [m/s or rad/s]
        """
        known = TERMS if robot is None else as_model(robot).mechanism.terms
        friction = {
            name: term for name, term in known.items() if term.dissipative and not term.other_joints
        }
        qd = np.linspace(-speed, speed, 401)
        state = JointState(
            q=0 * qd, qd=qd, qdd=0 * qd, sign=np.sign(qd), math=np, constants=self.constants.values
        )
        joints: dict[str, list[int]] = {}
        for k, name in enumerate(self.estimate.parameters):
            if not name.is_gain and name.kind in friction:
                joints.setdefault(name.owner, []).append(k)
        axes = stacked_axes(
            [f"{joint}: friction" for joint in joints], 1.6, along="velocity [m/s or rad/s]"
        )
        for each, columns in zip(axes, joints.values()):
            W = np.column_stack(
                [friction[self.estimate.parameters[k].kind].value(state) + 0 * qd for k in columns]
            )
            effort = W @ self.estimate.values[columns]
            std = np.sqrt(
                np.einsum("ti,ij,tj->t", W, self.estimate.covariance[np.ix_(columns, columns)], W)
            )
            each.plot(qd, effort)
            each.fill_between(qd, effort - 2 * std, effort + 2 * std, alpha=0.3)
        return axes

    @property
    def drive_gains(self) -> dict[str, dict[str, float]]:
        """Identified gains with standard deviations by joint, or the nominal ones without."""
        found = {
            name.owner: {"value": float(v), "std": float(s)}
            for name, v, s in zip(self.estimate.parameters, self.estimate.values, self.estimate.std)
            if name.is_gain
        }
        return found or {name: {"value": float(v)} for name, v in self.nominal_gains.items()}

    @property
    def payload(self) -> dict[Parameter, dict[str, float]]:
        """Identified payload parameters by name."""
        return {
            name: {"value": float(v), "std": float(s)}
            for name, v, s in zip(self.estimate.parameters, self.estimate.values, self.estimate.std)
            if name.payload is not None
        }

    @property
    def gains(self) -> dict[str, float] | None:
        """Drive gains by joint, identified or nominal; None where efforts were recorded."""
        return {name: entry["value"] for name, entry in self.drive_gains.items()} or None

    @property
    def processing(self) -> Processing:
        """How all logs were processed; complete, unless the result was put together by hand."""
        return Processing() if self.choice is None else self.choice.processing

    def processing_with(self, asked: Processing) -> Processing:
        """Return how other logs of the robot are to be processed: as these were, but for what is
        asked for.
        """
        usual, own = Processing(), self.processing
        given = {
            f.name: getattr(asked, f.name)
            for f in fields(asked)
            if getattr(asked, f.name) != getattr(usual, f.name)
        }
        if {"cutoff", "method"} & set(given):  # decimation, window and dead bands follow these
            own = replace(usual, method=own.method, cutoff=own.cutoff)
        return replace(own, **given)

    def fitted(self, model: Model) -> Model:
        """Return the robot with the constants of joint terms that were found, and with its
        transmitted efforts.
        """
        known = model.mechanism.constants
        if any(known[name].value != value for name, value in self.constants.values.items()):
            model = Model(model.mechanism.with_constants(self.constants.values))
        if not model.mechanism.load_dependent:
            return model
        return model.with_transmitted_effort(self.standard(model))

    def standard(self, model: Model) -> FloatArray:
        """Return standard parameters (p,) with the same efforts as the estimate: base values on
        their own columns.

        They are not physical body by body (use the `feasible` estimate for that), but exact for the
        model's efforts.
        """
        own = {
            name: value
            for name, value in zip(self.estimate.parameters, self.estimate.values)
            if name.payload is None and not name.is_gain
        }
        return standard_from_base(model, self.base.select(own), np.array(list(own.values())))[0]

    def to_dict(self) -> dict[str, Any]:
        """Return the documented JSON form."""
        e, constants = self.estimate, self.constants
        known = np.full(len(e), np.nan) if e.information is None else e.information
        found = {
            "format": RESULT_FORMAT,
            "robot": self.robot,
            "estimator": self.estimator,
            "parameters": [
                {
                    "name": n,
                    "value": float(v),
                    "std": float(s),
                    "unit": u,
                    "information_over_noise": None
                    if not np.isfinite(known[k])
                    else float(known[k]),
                    "std_by_source": {source.kind: float(source.std[k]) for source in e.sources},
                }
                for k, (n, v, s, u) in enumerate(zip(e.parameters, e.values, e.std, e.units))
            ],
            "uncertainty": e.uncertainty,
            "drive_gains": self.drive_gains,
            "payload": self.payload,
            "residual": {
                row: {
                    "rms": float(a),
                    "relative": float(b),
                    "share": int(count) / max(e.samples, 1),
                }
                for row, a, b, count in zip(e.rows, e.residual_rms, e.residual_relative, e.n_valid)
            },
            "validation": self.validation.to_dict(),
            "level": self.level,
            "headline": self.headline,
            "notices": [notice.to_dict() for notice in self.notices],
            "diagnosis": None if self.diagnosis is None else self.diagnosis.to_dict(),
            "tied": self.tied,
            "quality": {k: dict(v) for k, v in self.quality.items()},
            "history": list(self.history),
            "regrouping": self.base.regrouping(),
            "settings": dict(self.settings),
            "processing": self.processing.to_dict(),
            "choice": None if self.choice is None else self.choice.to_dict(),
            "logs": {use: list(names) for use, names in self.logs.items()},
            "digests": dict(self.digests),
        }
        if constants.values:
            found["constants"] = {
                name: {
                    "value": value,
                    "std": plain(constants.std[name]),
                    "unit": constants.units[name],
                }
                for name, value in constants.values.items()
            }
        return (
            found if self.structures is None else found | {"structures": self.structures.to_dict()}
        )

    def summary(self) -> str:
        """Return the result as plain text, headline and notices first."""
        parts = [self.headline, *notice_lines(self.notices)]
        if self.diagnosis is not None:
            parts += ["", self.diagnosis.summary()]
        parts += ["", self.estimate.summary(notices=False)]
        if self.constants.values:
            parts += ["", self.constants.summary()]
        if self.choice is not None:
            lines = self.choice.summary().splitlines()
            parts += ["", "Data and processing", *(f"  {line}" for line in lines)]
        if self.validation.predicts != "not tested":
            parts += ["", "Held-out data", self.validation.summary(notices=False)]
        combined = {
            name: formula
            for name, formula in self.base.regrouping().items()
            if name in self.estimate.parameters and " " in formula
        }
        if combined:
            parts += [
                "",
                "Combinations, not parameters of one body or joint alone:",
                *(f"  {name} = {shorten(formula, 100)}" for name, formula in combined.items()),
            ]
        if self.history:
            parts += [
                "",
                "Choice of essential parameters:",
                *(f"  {line}" for line in self.history),
            ]
        if self.structures is not None:
            parts += ["", self.structures.summary()]
        return "\n".join(parts)

    def save(self, folder: str | Path, *, beside: Mapping[str, str] | None = None) -> None:
        """Write `estimate.json` (all estimates, base parameters, notices) and `fits.npz` into an
        existing folder.

        Text files `beside`, by name, belong to the result; all appear together.
        """
        kept = {f.name: plain(getattr(self, f.name)) for f in fields(self) if f.name != "fits"}
        kept["beside"] = [*(beside or {})]
        kept["fits"] = [{"label": fit.label, "held_out": fit.held_out} for fit in self.fits]
        arrays = {
            f"{k}.{name}": getattr(fit, name)
            for k, fit in enumerate(self.fits)
            for name in FIT_ARRAYS
        }
        buffer = io.BytesIO()
        np.savez_compressed(buffer, **arrays)
        texts = {
            **(beside or {}),
            RESULT_FILE: json.dumps(self.to_dict() | {"stored": kept}, indent=1),
        }
        write_together(
            folder,
            {FITS_FILE: buffer.getvalue(), **{name: text.encode() for name, text in texts.items()}},
        )


def load_identification(folder: str | Path) -> Identification:
    """Read what `Identification.save` wrote."""
    check_type(
        folder,
        (str, Path),
        "the result",
        "the folder that Identification.save or `gough identify -o` wrote",
    )
    path = Path(folder) / RESULT_FILE
    try:
        content = parse_json(locate_written(folder, RESULT_FILE).read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise InvalidInput(
            f"'{path}' does not exist; give the folder that `gough identify -o` wrote"
        ) from None
    except (InvalidInput, UnicodeDecodeError) as error:
        raise InvalidInput(f"'{path}' is not a result of Gough: {error}") from None
    version = content.get("format") if isinstance(content, dict) else None
    if version != RESULT_FORMAT:
        raise InvalidInput(
            f"'{path}' has format {version}, expected {RESULT_FORMAT}; it was written by another "
            "version of Gough: run the identification again"
        )
    try:
        kept, hints = dict(content["stored"]), get_type_hints(Identification)
        with np.load(locate_written(folder, FITS_FILE)) as arrays:
            kept["fits"] = [
                {**fit, **{name: arrays[f"{k}.{name}"] for name in FIT_ARRAYS}}
                for k, fit in enumerate(kept["fits"])
            ]
        return Identification(
            **{name: restored(hint, kept[name]) for name, hint in hints.items() if name in kept}
        )
    except (
        KeyError,
        TypeError,
        ValueError,
        OSError,
        EOFError,
        MemoryError,
        RecursionError,
        BadZipFile,
    ) as error:
        raise InvalidInput(
            f"'{path}' is damaged: {error!r}; run the identification again"
        ) from None
