"""Results to report, made in a moment: the model's own efforts with noise, no simulation."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np

from gough.core.motion import Motion
from gough.core.notices import Notice
from gough.engine import Model, base_parameters
from gough.fitting.estimate import Enclosure, Estimate
from gough.fitting.least_squares import GaussMarkov, LeastSquares
from gough.fitting.regression import Regression
from gough.fitting.selection import Symmetry, WeakDirection
from gough.identification import Fit, Identification
from gough.identification.structures import FrictionStructure, ModelChoice
from gough.identification.validation import validate
from tests_support import model_of as robot

HOSTILE = "</script><script>window.hacked = 1</script><img src=x onerror=alert(1)>\"'&"


def motion(model: Model, seed: int, samples: int = 400, size: float = 0.012) -> Motion:
    """A smooth motion about home, two seconds long."""
    by = "task" if "task" in model.loops.partitions else "actuated"
    rng = np.random.default_rng(seed)
    independent = list(model.loops.partitions[by].independent)
    time = np.arange(samples) * 2.0 / samples
    angle = np.pi * time[:, None, None] * np.arange(1, 4)[:, None]  # (t, harmonic, 1)
    rate = np.pi * np.arange(1, 4)[:, None]
    a, b = size * rng.standard_normal((2, 3, len(independent)))
    position = model.home[independent] + (a * np.sin(angle) + b * (np.cos(angle) - 1)).sum(axis=1)
    velocity = (rate * (a * np.cos(angle) - b * np.sin(angle))).sum(axis=1)
    acceleration = (-(rate**2) * (a * np.sin(angle) + b * np.cos(angle))).sum(axis=1)
    return model.kinematics.motion(time, position, velocity, acceleration, by)


@cache
def result(name: str) -> Identification:
    """An identification of a bundled robot with an identification recording and a held-out one."""
    model = robot(name)
    base = base_parameters(model, tie_legs=bool(model.mechanism.ties))
    values = base.values(model.values(base.standard))
    rng = np.random.default_rng(5)
    motions = [motion(model, seed) for seed in (1, 2)]
    parts: list[Regression] = []
    for move in motions:
        clean = model.regression(move, np.zeros((len(move), len(model.actuated))), base)
        tau = clean.regressor @ values
        parts.append(
            replace(clean, effort=tau + 0.03 * np.abs(tau).max() * rng.standard_normal(tau.shape))
        )
    # Keep only what these short recordings determine.
    R = np.linalg.qr(parts[0].regressor.reshape(-1, len(base)), mode="r")
    kept = [
        n
        for n, size in zip(base.names, np.abs(np.diag(R)))
        if size > 1e-3 * np.abs(np.diag(R)).max()
    ]
    estimates = {
        "ls": LeastSquares().fit(parts[0].select(kept)),
        "gm": GaussMarkov().fit(parts[0].select(kept)),
    }
    estimate = estimates["gm"]
    fits = []
    for move, part, unseen in zip(motions, parts, (False, True)):
        fits.append(
            Fit(
                label=f"{'held-out' if unseen else 'identification'}: log{int(unseen)}.csv",
                held_out=unseen,
                time=move.time,
                measured=part.effort,
                predicted=estimate.predict(part),
                q=move.q,
                used=np.repeat(
                    np.arange(len(move))[:, None] % 100 >= 10, part.effort.shape[1], axis=1
                ),
            )
        )
    wide = 6 * estimate.std
    box = Enclosure(
        parameters=estimate.parameters,
        units=estimate.units,
        lower=estimate.values - wide,
        upper=estimate.values + wide,
        method="exact box",
        certificate={"error bound": 3.0},
    )
    return Identification(
        robot=name,
        estimator="gm",
        estimate=estimate,
        base=base,
        tied=bool(model.mechanism.ties),
        estimates=estimates,
        enclosures={"lp": box},
        validation=validate(estimate, parts[1:], source="log1.csv"),
        fits=tuple(fits),
        quality={
            "log0.csv": {"closure residual": 1.2e-12, "samples": 400.0},
            "log1.csv": {"closure residual": 1.5e-12, "samples": 400.0},
        },
        history=("  9 parameters, all base parameters: ratio 40.0",),
        notices=(
            Notice(rule="gap", level="info", where="log0.csv", text="three samples are missing"),
        ),
        settings={
            "recordings": ["log0.csv"],
            "validate": ["log1.csv"],
            "estimator": "gm",
            "essential": False,
        },
    )


def hostile() -> Identification:
    """A result in which every text that may come from a file is an attack."""
    good = result("five_bar")
    e, v = good.estimate, good.validation
    names = (f"{HOSTILE}.m", *e.parameters[1:])
    notice = Notice(rule=HOSTILE, level="info", where=HOSTILE, text=HOSTILE, advice=HOSTILE)

    def renamed(estimate: Estimate) -> Estimate:
        return replace(
            estimate,
            parameters=names,
            method=HOSTILE,
            notices=(notice,),
            uncertainty=HOSTILE,
            units=(HOSTILE, *estimate.units[1:]),
        )

    fits = tuple(replace(fit, label=f"identification: {HOSTILE}") for fit in good.fits)
    return replace(
        good,
        robot=HOSTILE,
        estimate=renamed(e),
        estimates={HOSTILE: renamed(good.estimates["ls"])},
        enclosures={
            HOSTILE: replace(good.enclosures["lp"], method=HOSTILE, certificate={HOSTILE: HOSTILE})
        },
        fits=fits,
        validation=replace(v, notices=(notice,)),
        notices=(notice,),
        history=(HOSTILE,),
        quality={HOSTILE: {HOSTILE: 1.0}},
        settings={HOSTILE: [HOSTILE]},
        structures=choice(HOSTILE),
    )


def choice(name: str) -> ModelChoice:
    """What data may say about the model."""
    return ModelChoice(
        friction=(
            FrictionStructure(
                name="none", parameters=9, correlation_condition=12.5, residual=0.3, held_out=0.4
            ),
            FrictionStructure(
                name=name, parameters=13, correlation_condition=50.0, residual=0.02, held_out=0.03
            ),
            FrictionStructure(
                name="too much",
                parameters=99,
                correlation_condition=None,
                residual=None,
                held_out=None,
                reason=f"rank lost at {name}",
            ),
        ),
        symmetry=(
            Symmetry(name=f"*.{name}", f=40.0, constraints=1.0, degrees_of_freedom=811.3, p=1e-9),
            Symmetry(
                name="*.proximal.IzzR", f=0.4, constraints=1.0, degrees_of_freedom=811.3, p=0.53
            ),
        ),
        weak=(WeakDirection(relative=0.02, direction=f"0.70 {name}"),),
        notices=(Notice(rule="symmetry", level="info", text=name),),
    )
