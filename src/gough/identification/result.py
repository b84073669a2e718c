"""The outcome of an identification: parameters, what they were found from, and how well they predict."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gough.core.arrays import FloatArray, check_shape, frozen
from gough.core.errors import InvalidInput
from gough.core.files import write_together
from gough.core.names import Parameter
from gough.core.parameters import BaseParameters
from gough.engine import Model, standard_from_base
from gough.estimators.estimate import Enclosure, Estimate
from gough.identification.diagnosis.mistakes import Diagnosis
from gough.identification.structures import ModelChoice
from gough.identification.validation import Validation
from gough.identification.verdict import Verdict

FORMAT = 1
FIT_ARRAYS = ("time", "measured", "predicted", "q", "used")


@dataclass(frozen=True, kw_only=True, eq=False)
class Fit:
    """Measured and predicted efforts of one recording, for pictures.

    Args:
        label: `identification` or `held-out`, with the recording's name.
        held_out: Not used for the estimate.
        time: (t,). [s]
        measured, predicted: Efforts of the rows, (t, r). [row unit]
        q: All coordinates, (t, n), for the moving picture. [m or rad]
        used: Which samples entered the estimate or its validation, (t,); those near reversals did not. None: all.
    """

    label: str
    held_out: bool
    time: FloatArray
    measured: FloatArray
    predicted: FloatArray
    q: FloatArray
    used: NDArray[np.bool_] | None = None

    def __post_init__(self) -> None:
        for name in ("time", "measured", "predicted", "q"):
            object.__setattr__(self, name, frozen(getattr(self, name)))
        used = np.ones(len(self.time), dtype=bool) if self.used is None else np.array(self.used, dtype=bool)
        check_shape(used, (len(self.time),), "used samples")
        used.setflags(write=False)
        object.__setattr__(self, "used", used)


@dataclass(frozen=True, kw_only=True, eq=False)
class Identification:
    """Parameters of a robot with uncertainty, validation and what led to them.

    Args:
        robot: Name of the robot, or path of its file.
        estimator: Which estimate is the result.
        estimate: That estimate: base parameters, and drive gains and payload parameters if asked.
        base: The base parameters behind it.
        tied: Legs were tied.
        estimates: All estimates by name, the result among them.
        enclosures: Guaranteed boxes by name.
        validation: Prediction of held-out data if there were any.
        verdict: What the rules say of the result; good if none speaks.
        diagnosis: Mistakes that explain what is left, made where the verdict is not good; else None.
        nominal_gains: Drive gains used to turn currents into efforts, by joint; empty if efforts were recorded.
        bodies: Ten inertial parameters by body of the physically consistent estimate; empty if it was not made.
            [kg, kg m, kg m2]
        joint_terms: Coefficients of the joint terms that go with them, by name (`leg1.slider.fv`).
        fits: Measured and predicted efforts.
        quality: Figures of the data by recording: closure residual, sensors, reversal window, cut-off.
        history: Steps of the choice of essential parameters, in words.
        notes: What the user should know.
        settings: How it was made, enough to make it again.
        structures: Friction structures, leg symmetry and weak directions, if asked for.
    """

    robot: str
    estimator: str
    estimate: Estimate
    base: BaseParameters
    tied: bool
    estimates: Mapping[str, Estimate] = field(default_factory=dict)
    enclosures: Mapping[str, Enclosure] = field(default_factory=dict)
    validation: Validation
    verdict: Verdict = field(default_factory=Verdict)
    diagnosis: Diagnosis | None = None
    nominal_gains: Mapping[str, float] = field(default_factory=dict)
    bodies: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    joint_terms: Mapping[str, float] = field(default_factory=dict)
    fits: tuple[Fit, ...] = ()
    quality: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    history: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    structures: ModelChoice | None = None

    @property
    def drive_gains(self) -> dict[str, dict[str, float]]:
        """Identified gains with standard deviations by joint, or the nominal ones without."""
        found = {}
        for name, value, std in zip(self.estimate.parameters, self.estimate.values, self.estimate.std):
            if name.is_gain:
                found[name.owner] = {"value": float(value), "std": float(std)}
        return found or {name: {"value": float(v)} for name, v in self.nominal_gains.items()}

    @property
    def payload(self) -> dict[Parameter, dict[str, float]]:
        """Identified payload parameters by name."""
        return {name: {"value": float(v), "std": float(s)} for name, v, s in
                zip(self.estimate.parameters, self.estimate.values, self.estimate.std) if name.payload is not None}

    def standard(self, model: Model) -> FloatArray:
        """Return standard parameters (p,) with the same efforts as the estimate: base values on their own columns.

        They are not physical body by body (use the `feasible` estimate for that), but exact for the model's efforts.
        """
        own = {name: value for name, value in zip(self.estimate.parameters, self.estimate.values)
               if name.payload is None and not name.is_gain}
        return standard_from_base(model, self.base.select(own), np.array(list(own.values())))[0]

    def to_dict(self) -> dict[str, Any]:
        """Return the documented JSON form."""
        e = self.estimate
        return {
            "format": FORMAT, "robot": self.robot, "estimator": self.estimator,
            "parameters": [{"name": n, "value": float(v), "std": float(s), "unit": u}
                           for n, v, s, u in zip(e.parameters, e.values, e.std, e.units)],
            "drive_gains": self.drive_gains, "payload": self.payload,
            "residual": {row: {"rms": float(a), "relative": float(b)}
                         for row, a, b in zip(e.rows, e.residual_rms, e.residual_relative)},
            "validation": self.validation.to_dict(), "verdict": self.verdict.to_dict(),
            "diagnosis": None if self.diagnosis is None else self.diagnosis.to_dict(),
            "notes": [*e.notes, *self.notes], "tied": self.tied,
            "quality": {k: dict(v) for k, v in self.quality.items()}, "history": list(self.history),
            "regrouping": self.base.regrouping(), "settings": dict(self.settings),
            **({} if self.structures is None else {"structures": self.structures.to_dict()}),
        }

    def summary(self) -> str:
        """Return the result as plain text, verdict first."""
        parts = [f"{self.robot}: {self.verdict.summary()}"]
        if self.diagnosis is not None:
            parts += ["", self.diagnosis.summary()]
        parts += ["", self.estimate.summary()]
        if self.notes:
            parts += ["", "Data and processing", *(f"  {note}" for note in self.notes)]
        if self.validation.predicts != "not tested":
            further = tuple(doubt for doubt in self.validation.doubts if doubt not in self.estimate.doubts)
            parts += ["", "Held-out data", replace(self.validation, doubts=further).summary()]
        if self.history:
            parts += ["", "Choice of essential parameters:", *(f"  {line}" for line in self.history)]
        if self.structures is not None:
            parts += ["", self.structures.summary()]
        return "\n".join(parts)

    def save(self, folder: str | Path, *, beside: Mapping[str, str] | None = None) -> None:
        """Write `estimate.json` (all estimates, base parameters, verdict) and `fits.npz` into a folder.

        Args:
            folder: An existing folder.
            beside: Text files, by name, that belong to the result; all appear together.
        """
        target = Path(folder)
        content = self.to_dict() | {
            "estimates": {name: e.to_dict() for name, e in self.estimates.items()},
            "enclosures": {name: e.to_dict() for name, e in self.enclosures.items()},
            "result": self.estimate.to_dict(),
            "nominal_gains": dict(self.nominal_gains),
            "bodies": {name: list(values) for name, values in self.bodies.items()},
            "joint_terms": dict(self.joint_terms),
            "base": {"names": list(self.base.names), "units": list(self.base.units),
                     "standard": list(self.base.standard), "matrix": self.base.matrix.tolist(),
                     "independent": list(self.base.independent),
                     "singular_values": self.base.singular_values.tolist(), "tolerance": self.base.tolerance},
        }
        arrays = {}
        for k, fit in enumerate(self.fits):
            for name in FIT_ARRAYS:
                arrays[f"{k}.{name}"] = getattr(fit, name)
        content["fits"] = [{"label": f.label, "held_out": f.held_out} for f in self.fits]
        buffer = io.BytesIO()
        np.savez_compressed(buffer, **arrays)
        texts = {**(beside or {}), "estimate.json": json.dumps(content, indent=1)}
        write_together({target / "fits.npz": buffer.getvalue(),
                        **{target / name: text.encode("utf-8") for name, text in texts.items()}})


def load_identification(folder: str | Path) -> Identification:
    """Read what `Identification.save` wrote.

    Raises:
        InvalidInput: No such result, or not one of Gough's.
    """
    path = Path(folder) / "estimate.json"
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise InvalidInput(f"'{path}' does not exist; give the folder that `gough identify -o` wrote") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(f"'{path}' is not a result of Gough: {error}") from None
    if content.get("format") != FORMAT:
        raise InvalidInput(f"'{path}' has format {content.get('format')}, expected {FORMAT}")
    try:
        return _from_dict(content, Path(folder))
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidInput(f"'{path}' is damaged: {error!r}; run the identification again") from None


def _from_dict(content: dict[str, Any], folder: Path) -> Identification:
    base, v = content["base"], content["validation"]
    rows = v["rows"]
    fits: list[Fit] = []
    if content.get("fits"):
        with np.load(folder / "fits.npz") as arrays:
            for k, fit in enumerate(content["fits"]):
                fits.append(Fit(label=fit["label"], held_out=fit["held_out"],
                                **{n: arrays[f"{k}.{n}"] for n in FIT_ARRAYS if f"{k}.{n}" in arrays}))
    validation = Validation(
        rows=tuple(rows), row_units=tuple(r["unit"] for r in rows.values()),
        rms=np.array([r["rms"] for r in rows.values()]), relative=np.array([r["relative"] for r in rows.values()]),
        whiteness=np.array([float("nan") if r["whiteness"] is None else r["whiteness"] for r in rows.values()]),
        numerics=v["numerics"], predicts=v["predicts"], doubts=tuple(v["doubts"]), source=v["source"])
    return Identification(
        robot=content["robot"], estimator=content["estimator"], estimate=Estimate.from_dict(content["result"]),
        base=BaseParameters(names=tuple(base["names"]), units=tuple(base["units"]), standard=tuple(base["standard"]),
                            matrix=np.array(base["matrix"]), independent=tuple(base["independent"]),
                            singular_values=np.array(base["singular_values"]), tolerance=base["tolerance"]),
        tied=content["tied"], estimates={k: Estimate.from_dict(e) for k, e in content["estimates"].items()},
        enclosures={k: Enclosure.from_dict(e) for k, e in content["enclosures"].items()}, validation=validation,
        verdict=Verdict.from_dict(content["verdict"]),
        diagnosis=None if content.get("diagnosis") is None else Diagnosis.from_dict(content["diagnosis"]),
        nominal_gains=content["nominal_gains"], bodies={k: tuple(v) for k, v in content.get("bodies", {}).items()},
        joint_terms=content.get("joint_terms", {}), fits=tuple(fits), quality=content["quality"],
        history=tuple(content["history"]), notes=tuple(content["notes"][len(content["result"]["notes"]):]),
        settings=content["settings"],
        structures=ModelChoice.from_dict(content["structures"]) if "structures" in content else None)
