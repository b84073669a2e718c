"""The result of an identification: parameters, their validation, and how they were found."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from textwrap import shorten
from typing import Any, get_type_hints

import numpy as np

from gough.core.arrays import BoolArray, FloatArray, check_type
from gough.core.display import stacked_axes
from gough.core.documents import parse_json, plain, restored
from gough.core.errors import InvalidInput
from gough.core.files import (
    MAX_JSON_CHARACTERS,
    MAX_UNPACKED_BYTES,
    Budget,
    encode_text,
    load_arrays,
    locate_written,
    read_bytes,
    read_text,
    write_together,
)
from gough.core.names import Parameter
from gough.core.notices import (
    Notice,
    ResultLevel,
    level_of,
    notice_lines,
    ordered,
)
from gough.core.parameters import MAX_FORMULA_CHARS, BaseParameters, ParameterTable
from gough.core.record import Columns, Record
from gough.engine import Model, Robot, as_model, standard_from_base
from gough.fitting.estimate import Enclosure, Estimate
from gough.fitting.regression import Regression
from gough.identification.constants import FittedConstants
from gough.identification.diagnosis import Diagnosis
from gough.identification.experiment import Experiment, known_effort
from gough.identification.parameter_constraints import (
    StatedEquation,
    no_parameters,
    split_combinations,
)
from gough.identification.structures import ModelChoice
from gough.identification.validation import Validation
from gough.mechanism.added_terms import with_term_text
from gough.mechanism.terms import TERMS, JointState
from gough.processing import Processing, ProcessingChoice

RESULT_FORMAT = 3  # version of the stored files
MAX_PLOTTED_SAMPLES = 4000  # of each log, kept for plots
RESULT_FILE = "estimate.json"
FITS_FILE = "fits.npz"
# begins the figures of valid equations by row in `quality`
VALID_FRACTION = "valid fraction of"
FIT_ARRAYS = ("time", "measured", "predicted", "q", "used")
FRICTION_PLOT_POINTS = 401
# Rules whose info is printed with the headline: it belongs to the
# verdict.
FIRST_INFO_RULES = (
    "robot file",
    "not noticed",
    "unexplained",
    "low speed",
    "diagnosis",
    "corrected files",
)
# Common factor between masses and those of the robot file from which
# the headline states it.
LARGE_FILE_FACTOR = 1.5


@dataclass(frozen=True, kw_only=True, eq=False)
class Fit(Record):
    """Measured and predicted efforts of one log, thinned for plots, (t, r). [row unit]"""

    label: str  # `identification` or `held-out`, with the log's name
    held_out: bool  # the log was not used to identify
    time: FloatArray  # (t,) [s]
    measured: FloatArray  # effort, (t, r)
    predicted: FloatArray
    q: FloatArray  # all coordinates, for the animation, (t, n) [m or rad]
    # valid equations; those near velocity reversals are not, (t, r)
    used: BoolArray


def fits_of(
    experiment: Experiment,
    predict: Callable[[Regression], FloatArray],
    *,
    held_out: bool = False,
) -> tuple[Fit, ...]:
    """Return measured and predicted efforts of each log, thinned for plots."""
    use = "held-out" if held_out else "identification"
    fits = []
    for log, block in zip(experiment.processed, experiment.regressions):
        step = max(1, len(block) // MAX_PLOTTED_SAMPLES)
        shown = block.take(slice(None, None, step))
        assert shown.time is not None
        assert shown.sample is not None
        known = known_effort(shown, experiment.known)
        fit = Fit(
            label=f"{use}: {log.source}",
            held_out=held_out,
            time=shown.time,
            measured=shown.effort + known,
            predicted=predict(shown) + known,
            q=log.motion.q[shown.sample - log.sample[0]],
            used=shown.valid,
        )
        fits.append(fit)
    return tuple(fits)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Identification(Record):
    """Parameters of a robot with their uncertainty and validation, and how they were found."""

    robot: str  # name, or path of its file
    estimator: str  # which of `estimates` is the result
    # base parameters, and drive gains and payload parameters if asked
    estimate: Estimate
    base: BaseParameters  # the base parameters
    tied: bool  # parameters of equal legs were
    # parameters that were fixed or tied by name
    stated: tuple[StatedEquation, ...] = ()
    # standard parameters that follow from the estimate with these
    derived: ParameterTable = field(default_factory=no_parameters)
    # by name of the estimator
    estimates: Mapping[str, Estimate] = field(default_factory=dict)
    # guaranteed interval enclosures, by name
    enclosures: Mapping[str, Enclosure] = field(default_factory=dict)
    validation: Validation
    # all that the user should know: errors, warnings, info
    notices: tuple[Notice, ...] = ()
    # faults that explain the residual, where there are warnings or
    # errors
    diagnosis: Diagnosis | None = None
    # drive gains that turned currents into efforts, by joint
    nominal_gains: Mapping[str, float] = field(default_factory=dict)
    # units of the drive gains by joint, e.g. `N m per %`; empty where
    # efforts were recorded
    gain_units: Mapping[str, str] = field(default_factory=dict)
    # measured payload parameters from which drive gains were
    # identified, by full name
    known: Mapping[str, float] = field(default_factory=dict)
    # physically consistent inertial parameters by body [kg, kg m, kg
    # m2]
    bodies: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    # coefficients of joint terms estimated with them
    joint_terms: Mapping[str, float] = field(default_factory=dict)
    # fraction of the information on each of these parameters that is
    # the data's: 1 is the data's, 0 the robot file's
    determined: Mapping[str, float] = field(default_factory=dict)
    # rms residual over rms effort of all samples of the identification
    # logs, rests and reversals too, by row
    relative_all: Mapping[str, float] = field(default_factory=dict)
    # `[[term]]` tables of the joint terms that were added to those of
    # the robot file
    added_terms: str = ""
    # of joint terms that were fitted
    constants: FittedConstants = field(default_factory=FittedConstants)
    fits: tuple[Fit, ...] = ()  # efforts for figures, by log
    # figures of the data by log
    quality: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    # steps of the choice of essential parameters, in words
    history: tuple[str, ...] = ()
    # every option: the same logs give the same result
    settings: Mapping[str, Any] = field(default_factory=dict)
    # processing of the logs and its candidates
    choice: ProcessingChoice | None = None
    # names by use
    logs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    # SHA-256 by the names in `quality`
    digests: Mapping[str, str] = field(default_factory=dict)
    # friction structures and terms that were compared
    structures: ModelChoice | None = None
    # names of the files saved with it: the robot file, a study
    beside: tuple[str, ...] = ()

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
        """Robot, level, causes and prediction in one sentence.

        Where no cause is named, the rules that warn follow. A large
        factor between the masses and those of the robot file is stated,
        although logs cannot show whether the file or the efforts are
        wrong.
        """
        sentence = f"{self.robot}: {self.level.upper()} - "
        causes = [] if self.diagnosis is None else self.diagnosis.causes
        if causes:
            sentence += f"{'; '.join(causes)}; "
        sentence += self.validation.headline
        for notice in self.notices:
            factor = notice.numbers.get("factor", 1.0)
            if notice.rule == "robot file" and abs(np.log(factor)) > np.log(LARGE_FILE_FACTOR):
                sentence += f"; masses and friction are {factor:.3g} times the robot file's"
        rules = []
        for notice in self.notices:
            if notice.level != "info" and notice.rule != "not validated":
                rules.append(notice.rule)
        if rules and not causes:
            sentence += f"; see {', '.join(dict.fromkeys(rules))}"
        return sentence

    @property
    def params(self) -> dict[str, float]:
        """The estimated values by name; see `Estimate.params`."""
        return self.estimate.params

    @property
    def bse(self) -> dict[str, float]:
        """The standard errors by name; see `Estimate.bse`."""
        return self.estimate.bse

    def conf_int(self, level: float = 0.95) -> dict[str, tuple[float, float]]:
        """Return the confidence intervals by name; see `Estimate.conf_int`."""
        return self.estimate.conf_int(level)

    @property
    def resid(self) -> dict[str, FloatArray]:
        """Measured minus predicted efforts by log, thinned as in `fits`, (t, r). [row unit]"""
        return {fit.label: fit.measured - fit.predicted for fit in self.fits}

    def table(self) -> Columns:
        """Return the table of the estimate that is the result."""
        return self.estimate.table()

    def plot(self) -> Any:
        """Draw measured and predicted efforts, a panel for each log and row; returns the axes."""
        titles = []
        panels = []
        for fit in self.fits:
            for k, row in enumerate(self.estimate.rows):
                titles.append(f"{fit.label}: {row} [{self.estimate.row_units[k]}]")
                panels.append((fit, k))
        axes = stacked_axes(titles, 1.5, share=False)
        for axis, (fit, k) in zip(axes, panels):
            measured = fit.measured[:, k]
            predicted = fit.predicted[:, k]
            axis.plot(fit.time, measured, color="0.6", label="measured")
            axis.plot(fit.time, predicted, linewidth=1, label="predicted")
            axis.plot(fit.time, measured - predicted, linewidth=0.7, label="residual")
        for axis in axes[:1]:
            axis.legend(loc="upper right", fontsize="small")
        return axes

    def plot_friction(self, robot: Robot | None = None, *, speed: float = 1.0) -> Any:
        """Draw the friction of each joint over its velocity; returns the axes.

        The band is two standard errors. Terms that depend on other
        joints are omitted; internal states are in equilibrium.

        Args:
            robot: Needed where the robot file has terms of its own.
            speed: Largest velocity. [m/s or rad/s]
        """
        terms = TERMS if robot is None else as_model(robot).mechanism.terms
        qd = np.linspace(-speed, speed, FRICTION_PLOT_POINTS)
        rest = np.zeros(len(qd))
        state = JointState(
            q=rest,
            qd=qd,
            qdd=rest,
            sign=np.sign(qd),
            math=np,
            constants=self.constants.values,
        )
        columns_of: dict[str, list[int]] = {}
        for k, name in enumerate(self.estimate.parameters):
            if name.is_gain or name.kind not in terms:
                continue
            if terms[name.kind].dissipative and not terms[name.kind].other_joints:
                columns_of.setdefault(name.owner, []).append(k)
        titles = [f"{joint}: friction" for joint in columns_of]
        axes = stacked_axes(titles, 1.6, along="velocity [m/s or rad/s]")
        for axis, columns in zip(axes, columns_of.values()):
            regressor = np.zeros((len(qd), len(columns)))
            for column, k in enumerate(columns):
                kind = self.estimate.parameters[k].kind
                regressor[:, column] = terms[kind].value(state)
            effort = regressor @ self.estimate.values[columns]
            covariance = self.estimate.covariance[np.ix_(columns, columns)]
            std = np.sqrt(np.einsum("ti,ij,tj->t", regressor, covariance, regressor))
            axis.plot(qd, effort)
            axis.fill_between(qd, effort - 2 * std, effort + 2 * std, alpha=0.3)
        return axes

    @property
    def drive_gains(self) -> dict[str, dict[str, float]]:
        """Identified gains with standard errors by joint, and the nominal ones without."""
        gains = {}
        for k, name in enumerate(self.estimate.parameters):
            if name.is_gain:
                gains[name.owner] = self._value_and_std(k)
        for motor, gain in self.nominal_gains.items():
            if motor not in gains:
                gains[motor] = {"value": float(gain)}
        return gains

    @property
    def payload(self) -> dict[Parameter, dict[str, float]]:
        """Identified payload parameters with standard errors by name."""
        parameters = {}
        for k, name in enumerate(self.estimate.parameters):
            if name.payload is not None:
                parameters[name] = self._value_and_std(k)
        return parameters

    def _value_and_std(self, k: int) -> dict[str, float]:
        return {
            "value": float(self.estimate.values[k]),
            "std": float(self.estimate.std[k]),
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
        """Return the processing for other logs of the robot: as of these, but for what is asked."""
        default = Processing()
        used = self.processing
        given = {}
        for option in fields(asked):
            wanted = getattr(asked, option.name)
            if wanted != getattr(default, option.name):
                given[option.name] = wanted
        if "cutoff" in given or "method" in given:
            # decimation, exclusion window and dead bands depend on
            # these
            used = replace(default, method=used.method, cutoff=used.cutoff)
        return replace(used, **given)

    def fitted(self, model: Model) -> Model:
        """Return the robot with added terms, fitted constants and the transmitted efforts."""
        if self.added_terms:
            mechanism = with_term_text(model.mechanism, self.added_terms)
            if mechanism.terms.keys() != model.mechanism.terms.keys():
                model = Model(mechanism)
        known = model.mechanism.constants
        if any(known[name].value != fitted for name, fitted in self.constants.values.items()):
            model = Model(model.mechanism.with_constants(self.constants.values))
        if not model.mechanism.load_dependent:
            return model
        return model.with_transmitted_effort(self.standard(model))

    def standard(self, model: Robot) -> FloatArray:
        """Return standard parameters with the same efforts as the estimate, (p,).

        Each base value is given to the standard parameter of its
        column. They are not physically consistent body by body (use the
        `feasible` estimate for that), but give exactly the model's
        efforts. Parameters that were fixed or tied by name are as
        stated.
        """
        model = as_model(model)
        names = []
        values = []
        for name, estimated in zip(self.estimate.parameters, self.estimate.values):
            if name.payload is None and not name.is_gain:
                names.append(name)
                values.append(estimated)
        base = self.base.select(names)
        if not self.stated:
            return standard_from_base(model, base, np.array(values))[0]
        standard = split_combinations(base, np.array(values), self.stated)
        return standard_from_base(model, base.every_standard(), standard)[0]

    def to_dict(self) -> dict[str, Any]:
        """Return the documented JSON form."""
        document = {
            "format": RESULT_FORMAT,
            "robot": self.robot,
            "estimator": self.estimator,
            "parameters": [self._parameter_dict(k) for k in range(len(self.estimate))],
            "derived": self._derived_dict(),
            "uncertainty": self.estimate.uncertainty,
            "drive_gains": self.drive_gains,
            "gain_units": dict(self.gain_units),
            "payload": self.payload,
            "residual": self._residual_dict(),
            "validation": self.validation.to_dict(),
            "level": self.level,
            "headline": self.headline,
            "notices": [notice.to_dict() for notice in self.notices],
            "diagnosis": None if self.diagnosis is None else self.diagnosis.to_dict(),
            "tied": self.tied,
            "quality": {log: dict(figures) for log, figures in self.quality.items()},
            "history": list(self.history),
            "regrouping": self.base.regrouping(),
            "settings": dict(self.settings),
            "processing": self.processing.to_dict(),
            "choice": None if self.choice is None else self.choice.to_dict(),
            "logs": {use: list(names) for use, names in self.logs.items()},
            "digests": dict(self.digests),
        }
        if self.added_terms:
            document["added_terms"] = self.added_terms
        if self.constants.values:
            document["constants"] = self.constants.to_dict()
        if self.structures is not None:
            document["structures"] = self.structures.to_dict()
        return document

    def _parameter_dict(self, k: int) -> dict[str, Any]:
        """Return the JSON form of one parameter."""
        estimate = self.estimate
        information = None
        if estimate.information is not None and np.isfinite(estimate.information[k]):
            information = float(estimate.information[k])
        return {
            "name": estimate.parameters[k],
            **self._value_and_std(k),
            "unit": estimate.units[k],
            "information_over_noise": information,
            "std_by_source": {source.kind: float(source.std[k]) for source in estimate.sources},
        }

    def _derived_dict(self) -> dict[str, dict[str, Any]]:
        """Return the JSON form of the parameters that follow from stated ones, by name."""
        derived = {}
        for k, name in enumerate(self.derived.names):
            std = 0.0 if self.derived.std is None else float(self.derived.std[k])
            derived[str(name)] = {
                "value": float(self.derived.values[k]),
                "std": std,
                "unit": name.unit,
            }
        return derived

    def _residual_dict(self) -> dict[str, Any]:
        """Return the JSON form of the residual of the identification logs, by row."""
        estimate = self.estimate
        samples = max(estimate.samples, 1)
        residual = {}
        for k, row in enumerate(estimate.rows):
            residual[row] = {
                "rms": float(estimate.residual_rms[k]),
                "relative": float(estimate.residual_relative[k]),
                "share": int(estimate.n_valid[k]) / samples,
            }
            if row in self.relative_all:
                residual[row]["relative_all"] = self.relative_all[row]
        return residual

    def summary(self) -> str:
        """Return the result as plain text.

        First the headline and what decides about using the model, then
        the tables, then the other notices.
        """
        first: list[Notice] = []
        others: list[Notice] = []
        for notice in self.notices:
            is_first = notice.level != "info" or notice.rule in FIRST_INFO_RULES
            if is_first:
                first.append(notice)
            else:
                others.append(notice)
        lines = [self.headline, *notice_lines(first)]
        if self.diagnosis is not None and self.diagnosis.faults:
            lines += ["", self.diagnosis.fault_table()]
        lines += ["", self.estimate.summary(notices=False)]
        if self.relative_all:
            errors = [f"{row} {100 * e:.3g} %" for row, e in self.relative_all.items()]
            lines += [f"of all samples, rests and reversals too: {', '.join(errors)}"]
        if self.constants.values:
            lines += ["", self.constants.summary()]
        if self.choice is not None:
            lines += ["", "Data and processing"]
            lines += [f"  {line}" for line in self.choice.summary().splitlines()]
        if self.validation.predicts != "not tested":
            lines += [
                "",
                "Held-out data",
                self.validation.summary(notices=False),
            ]
        combinations = []
        for name, formula in self.base.regrouping().items():
            if name in self.estimate.parameters and " " in formula:
                combinations.append(f"  {name} = {shorten(formula, MAX_FORMULA_CHARS)}")
        if combinations:
            lines += [
                "",
                "Combinations, not parameters of one body or joint alone:",
            ]
            lines += combinations
        if self.history:
            lines += ["", "Choice of essential parameters:"]
            lines += [f"  {line}" for line in self.history]
        if self.structures is not None:
            lines += ["", self.structures.summary()]
        if others:
            lines += ["", "Notes", *notice_lines(others)]
        return "\n".join(lines)

    def save(self, folder: str | Path, *, beside: Mapping[str, str] | None = None) -> None:
        """Write `estimate.json` (estimates, notices) and `fits.npz` into an existing folder.

        Args:
            folder: Where to write; all files appear together.
            beside: Text files that belong to the result, by name.
        """
        texts = dict(beside or {})
        stored = {}
        for entry in fields(self):
            if entry.name != "fits":
                stored[entry.name] = plain(getattr(self, entry.name))
        stored["beside"] = list(texts)
        stored["fits"] = [{"label": fit.label, "held_out": fit.held_out} for fit in self.fits]
        texts[RESULT_FILE] = json.dumps(self.to_dict() | {"stored": stored}, indent=1)
        arrays = {}
        for k, fit in enumerate(self.fits):
            for name in FIT_ARRAYS:
                arrays[f"{k}.{name}"] = getattr(fit, name)
        buffer = io.BytesIO()
        np.savez_compressed(buffer, **arrays)
        files = {FITS_FILE: buffer.getvalue()}
        for name, text in texts.items():
            files[name] = encode_text(text)
        write_together(folder, files)


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
        is_stored = locate_written(folder, RESULT_FILE).is_file()
    except (OSError, ValueError):  # a NUL in the path
        is_stored = False
    if not is_stored:
        raise InvalidInput(
            f"'{path}' does not exist; give the folder that `gough identify -o` wrote"
        )
    try:
        content = parse_json(read_text(locate_written(folder, RESULT_FILE), MAX_JSON_CHARACTERS))
    except InvalidInput as error:
        raise InvalidInput(f"'{path}' is not a result of Gough: {error}") from None
    version = content.get("format") if isinstance(content, dict) else None
    if version != RESULT_FORMAT:
        raise InvalidInput(
            f"'{path}' has format {version}, expected {RESULT_FORMAT}; it was written by another "
            "version of Gough: run the identification again"
        )
    try:
        stored = dict(content["stored"])
        packed = read_bytes(locate_written(folder, FITS_FILE), MAX_UNPACKED_BYTES)
        arrays = load_arrays(packed, Budget(str(path), len(packed)))
        for k, fit in enumerate(stored["fits"]):
            for name in FIT_ARRAYS:
                fit[name] = arrays[f"{k}.{name}"]
        entries = {}
        for name, hint in get_type_hints(Identification).items():
            if name in stored:
                entries[name] = restored(hint, stored[name])
        return Identification(**entries)
    except Exception as error:  # whatever a damaged file makes NumPy, zlib and the types raise
        raise InvalidInput(
            f"'{path}' is damaged: {error!r}; run the identification again"
        ) from None
