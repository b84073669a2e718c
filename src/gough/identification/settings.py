"""Options of an identification."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gough.core.options import Settings, nested, option
from gough.engine.base import TIE_LEGS
from gough.fitting.problem import Estimator
from gough.identification.estimators import ALL, AUTO_ESTIMATOR, ESTIMATORS
from gough.processing import Processing

GIVEN_TERMS = "given"
AUTO_TERMS = "auto"


@dataclass(frozen=True, kw_only=True)
class IdentifySettings(Settings):
    """How a robot is identified."""

    estimator: str | Estimator = option(
        AUTO_ESTIMATOR,
        "Estimator to use. auto: gm, or wls, ls or robust where it predicts left-out logs (of one "
        "log: parts of it) better than chance explains; gm: Gauss-Markov; ml: filter cut-off by "
        "likelihood; feasible: physically consistent (positive mass and inertia); tls, gain_ml: "
        "with drive gains, from loaded logs; all: side by side.",
        choices=lambda: (*ESTIMATORS, AUTO_ESTIMATOR, ALL),
    )
    payload: str | None = option(
        None,
        "What the loaded logs carry: a name of the robot file, mass=1.983, or name:m=1.983,mx=0.",
    )
    carrying: str | None = option(
        None,
        "Extra channel of the logs that is on while the payload is carried, e.g. of a gripper or a "
        "vacuum sensor: logs are divided where it switches.",
    )
    essential: bool = option(
        False,
        "Keep only the essential parameters (BG13); with logs to validate on, the smallest model "
        "that predicts them within 1 % of the best.",
    )
    ratio: float = option(
        10.0,
        "Stop removing parameters when max/min relative standard error falls below this.",
        above=1,
    )
    tie_legs: bool = option(False, TIE_LEGS)
    structures: bool = option(
        False,
        "Also compare friction structures, try other joint terms by blocked cross-validation, test "
        "whether legs are alike and name what the data hardly determine.",
    )
    terms: str = option(
        GIVEN_TERMS,
        "Joint terms of the model. given: those of the robot file; auto: also those that predict "
        "each left-out log (of one log: each left-out part) significantly better; they are added "
        "to the result and to the robot file that is written with it.",
        choices=lambda: (GIVEN_TERMS, AUTO_TERMS),
    )
    total_mass: float | None = option(
        None,
        "Mass of all moving bodies of the robot together, if it was weighed (to about 1 %); the "
        "physically consistent estimate then has it.",
        unit="kg",
        above=0,
    )
    gains: Mapping[str, float] | None = option(
        None,
        "Drive gains, motor=value; the robot file's by default.",
        unit="N or N m per recorded unit",
        above=0,
    )
    fixed: Mapping[str, float] | None = option(
        None,
        "Parameters with a known value, name=value: base parameters, or any standard ones.",
    )
    tied: Mapping[str, str] | None = option(
        None,
        "Parameters that equal others, name=other or name=0.5*other.",
    )
    bounds: Mapping[str, tuple[float, float]] | None = option(
        None,
        "Lowest and highest value of parameters, name=low:high; inf for none.",
        infinite=True,
    )
    find_gains: bool = option(
        False,
        "Find the drive gains of logs with currents or volts without a payload: from other logs in "
        "efforts; without any, relative to the first motor's.",
    )
    processing: Processing = nested(Processing)
