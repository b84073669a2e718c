"""What a user adds to Gough, in one file of their own, and Gough's command line with it.

python my_gough.py identify robot.toml run.cnt -o result
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from gough.core.documents import toml_text
from gough.engine import Model
from gough.export import Export, register_export
from gough.fitting.estimate import Estimate
from gough.fitting.least_squares import LeastSquares
from gough.fitting.regression import Regression
from gough.identification import Identification, register_estimator
from gough.logs.formats import in_blocks, register_log_format
from gough.logs.recording import Recording
from gough.logs.tables import Table
from gough.mechanism import (
    Closure,
    ClosureKind,
    JointTerm,
    Mechanism,
    parse_robot,
    register_closure,
    register_robot_format,
    register_term,
)
from gough.mechanism.closures import Configuration
from gough.verdict.faults import Fault, register_fault
from gough.verdict.fitted_log import FittedLog
from gough.verdict.motor_signals import MotorSignals

SLOW = 0.05  # [m/s or rad/s]
COLUMNS = (
    "time [s]",
    "left.motor.position [rad]",
    "right.motor.position [rad]",
    "left.motor.effort [N m]",
    "right.motor.effort [N m]",
)


def flat(closure: Closure, at: Configuration) -> list[object]:
    gap = at.b.translation - at.a.translation
    return [gap[0], gap[1]]


def hinge(closure: Closure, at: Configuration) -> list[object]:
    gap = at.b.translation - at.a.translation
    relative = at.a.rotation.T @ at.b.rotation
    return [gap[0], gap[1], gap[2], relative[0, 2], relative[1, 2]]


def read_counter(path: Path) -> Table:
    data = np.fromfile(path, dtype="<f8").reshape(-1, len(COLUMNS))
    return Table(source=path.name, columns=dict(zip(COLUMNS, data.T)))


def write_counter(recording: Recording, path: Path) -> None:
    np.column_stack([recording.time, recording.position, recording.effort]).astype("<f8").tofile(
        path
    )


def write_names(model: Model, result: Identification, name: str) -> dict[str, str]:
    return {"txt": "".join(f"{parameter}\n" for parameter in result.estimate.parameters)}


@dataclass(frozen=True)
class Halved:
    """Least squares of every other sample."""

    def fit(self, problem: Regression) -> Estimate:
        return replace(
            LeastSquares().fit(problem.take(slice(None, None, 2))), method="every other sample"
        )


def read_json(text: str, source: str) -> Mechanism:
    return parse_robot(toml_text(json.loads(text)), source)


def with_steady_gain(
    log: FittedLog, signals: MotorSignals, place: str, size: np.ndarray
) -> MotorSignals:
    """Return signals without a gain that falls by `size` each second."""
    gain = np.ones(signals.effort.shape)
    motor = log.model.mechanism.actuated.index(place)
    gain[:, motor] -= size[0] * signals.time
    return signals.with_effort(lambda effort: effort / gain)


def register() -> None:
    register_fault(
        Fault(
            name="falling gain",
            places=lambda evidence: evidence.model.mechanism.actuated,
            unit="1/s",
            undo=with_steady_gain,
            text="the gain of {place} falls by {size}",
            advice="let the drive of {place} cool down",
        )
    )
    register_term(
        JointTerm(
            name="fc",
            label="smooth Coulomb friction",
            units=("N", "N m"),
            nonnegative=True,
            dissipative=True,
            coulomb=1.0,
            expression=f"tanh(qd / {SLOW})",
        )
    )
    register_closure(
        ClosureKind(
            name="flat", label="origins coincide in x and y", units=("m", "m"), residual=flat
        )
    )
    register_closure(
        ClosureKind(
            name="hinge",
            label="origins coincide and z axes are parallel",
            units=("m",) * 3 + ("rad",) * 2,
            residual=hinge,
            urdf="hinge",
            mjcf=("connect", "axis"),
            pinocchio=("gap", "axis"),
        )
    )
    register_log_format(".cnt", in_blocks(read_counter))
    register_robot_format(".json", read_json)
    register_estimator("halved", Halved())
    register_export(
        Export(
            name="names",
            label="names of the parameters, one a line",
            write=write_names,
            default_name="names",
        )
    )


if __name__ == "__main__":
    from gough.app.cli import main

    register()
    main()
