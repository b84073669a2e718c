"""Logs of a virtual fleet as files: logs, their table, a fleet file, and the faults."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from gough.app.studies.step import Progress
from gough.app.studies.study_file import STUDY_FORMAT
from gough.core.documents import toml_text
from gough.core.errors import InvalidInput
from gough.core.files import write_text
from gough.engine import as_model
from gough.mechanism import Mechanism
from gough.virtual.fleet_logs import FleetFaults, VirtualFleet

FIRST_DAY = datetime(2026, 3, 2, 6, tzinfo=UTC)
FRICTION_DRIFT = 0.2  # relative change of Coulomb friction over the whole time
WRONG_GAIN = 1.1  # factor of a wrong drive gain
# error of a wrongly referenced encoder, as a fraction of the range of
# its motor
ENCODER_ERROR_FRACTION = 0.03
# robots with a fault beside drifting ones: a gain, a payload, an
# encoder
N_FAULTY = 3


def write_virtual_fleet(
    robot: str,
    folder: Path,
    *,
    robots: int,
    days: int,
    drifting: int,
    seed: int,
    progress: Progress,
) -> list[Path]:
    """Write the logs of a virtual fleet and return the files that describe them.

    Args:
        robot: Name or path of the robot file.
        folder: Where to; made if it does not exist.
        robots: Number of robots.
        days: Number of days, with a log of each robot every day.
        drifting: Number of robots whose Coulomb friction drifts.
        seed: Of the random generator.
        progress: Called with the fraction done.
    """
    if drifting + N_FAULTY > robots:
        raise InvalidInput(
            f"{drifting} drifting robots and {N_FAULTY} with other faults are more than the "
            f"{robots} robots of the fleet"
        )
    model = as_model(robot)
    faults = _choose_faults(model.mechanism, robots, days, drifting)
    virtual = VirtualFleet(model=model, days=days, seed=seed, faults=faults)
    digits = len(str(robots - 1))
    names = [f"r{k:0{digits}d}" for k in range(robots)]
    table = _write_logs(virtual, names, folder, progress)
    fleet_file = {
        "format": STUDY_FORMAT,
        "robot": robot,
        "logs": "logs.csv",
        "tie_legs": bool(model.mechanism.ties),
        "factors": "factors",
    }
    texts = {
        "logs.csv": "\n".join(table) + "\n",
        "fleet.toml": toml_text(fleet_file),
        "truth.csv": "\n".join(_truth_table(faults, names, model.mechanism)) + "\n",
    }
    for name, text in texts.items():
        write_text(folder / name, text)
    return [folder / name for name in texts]


def _choose_faults(mechanism: Mechanism, robots: int, days: int, drifting: int) -> FleetFaults:
    """Return the faults of a fleet, spread over its robots."""
    motors = mechanism.actuated
    spacing = max(1, robots // (drifting + N_FAULTY))
    drift = {}
    for k in range(drifting):
        sign = 1 if k % 2 else -1
        drift[k * spacing] = (motors[k % len(motors)], sign * FRICTION_DRIFT)
    wrong_gain = drifting * spacing
    loaded = (drifting + 1) * spacing
    wrong_encoder = (drifting + 2) * spacing
    low, high = mechanism.joint(motors[0]).limits.position or (-1.0, 1.0)
    return FleetFaults(
        drift=drift,
        gain={wrong_gain: (motors[1 % len(motors)], WRONG_GAIN)},
        encoder={wrong_encoder: (motors[0], ENCODER_ERROR_FRACTION * (high - low))},
        payload={loaded: (days // 2,)} if mechanism.payloads else {},
    )


def _write_logs(
    virtual: VirtualFleet,
    names: Sequence[str],
    folder: Path,
    progress: Progress,
) -> list[str]:
    """Write a log of each robot and day; returns the lines of their table."""
    (folder / "logs").mkdir(parents=True, exist_ok=True)
    table = ["log,robot,time,temperature"]
    for k, name in enumerate(names):
        for day in range(virtual.days):
            log = f"logs/{name}-day{day:02d}.npz"
            virtual.record(k, day).save(folder / log)
            time = (FIRST_DAY + timedelta(days=day, minutes=k)).isoformat()
            table.append(f"{log},{name},{time},{virtual.temperature(k, day):.2f}")
        progress((k + 1) / len(names))
    return table


def _truth_table(faults: FleetFaults, names: Sequence[str], mechanism: Mechanism) -> list[str]:
    """Return the lines of a table of the faults."""
    lines = ["robot,kind,text"]
    for k, (motor, change) in faults.drift.items():
        percent = f"{100 * change:+.0f} %"
        lines.append(f"{names[k]},drift,dry friction of {motor} changes by {percent}")
    for k, (motor, factor) in faults.gain.items():
        lines.append(f"{names[k]},fault,effort of {motor} is recorded {factor:g} times")
    for k, (motor, offset) in faults.encoder.items():
        unit = mechanism.joint(motor).unit
        lines.append(f"{names[k]},fault,position of {motor} is recorded {offset:+.3g} {unit} off")
    for k, loaded_days in faults.payload.items():
        lines.append(f"{names[k]},fault,carries an undeclared payload on day {loaded_days[0]}")
    return lines
