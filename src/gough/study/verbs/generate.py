"""Make the logs of a virtual fleet: pick and place day by day, weather, wear, and a few things that are wrong.

Writes the logs, their table, a fleet file, and what is wrong with whom (`truth.csv`).

Example:  gough generate five_bar --robots 4 --days 8 --drifting 1 -o fleet
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated

from gough.core.documents import toml_text
from gough.core.errors import InvalidInput
from gough.core.files import require_free_folder, write_text
from gough.core.options import About
from gough.engine import as_model
from gough.study.common import Force, Progress, Robot, Written
from gough.study.run import FORMAT
from gough.virtual.fleet import VirtualFleet, Wrong

FIRST = datetime(2026, 3, 2, 6, tzinfo=UTC)
DRIFT = 0.2  # relative change of dry friction over the whole time
GAIN = 1.1  # of a drive that is wrong
HOMED = 0.03  # error of an encoder that was homed wrongly, as part of the range of its motor


def generate(robot: Robot, *,
             output: Annotated[str, About(help="Folder for everything it makes.", file=True, short="-o")] = "fleet",
             robots: Annotated[int, About(help="How many robots.", least=3)] = 50,
             days: Annotated[int, About(help="Days, a log each.", least=2)] = 30,
             drifting: Annotated[int, About(help="Robots whose dry friction drifts.", least=0)] = 4,
             seed: Annotated[int, About(help="Seed of the random generator.", least=0)] = 0,
             force: Force = False, progress: Progress | None = None) -> Written:
    """Make a virtual fleet with some robots that drift, a wrong gain, a wrong encoder, a load that no log mentions."""
    if drifting + 3 > robots:
        raise InvalidInput(f"{drifting} drifting robots and three more that are wrong do not fit among {robots}")
    folder = require_free_folder(output, force)
    model = as_model(robot)
    motors, step = model.mechanism.actuated, max(1, robots // (drifting + 3))
    drift = {k * step: (motors[k % len(motors)], DRIFT * (1 if k % 2 else -1)) for k in range(drifting)}
    gain = {drifting * step: (motors[1 % len(motors)], GAIN)}
    load = {(drifting + 1) * step: (days // 2,)} if model.mechanism.payloads else {}
    low, high = model.mechanism.joint(motors[0]).limits.position or (-1.0, 1.0)
    encoder = {(drifting + 2) * step: (motors[0], HOMED * (high - low))}
    virtual = VirtualFleet(model=model, days=days, seed=seed,
                           wrong=Wrong(drift=drift, gain=gain, encoder=encoder, load=load))
    (folder / "logs").mkdir(parents=True, exist_ok=True)
    table, width = ["log,robot,time,temperature"], len(str(robots - 1))
    for k in range(robots):
        for day in range(days):
            name = f"logs/r{k:0{width}d}-day{day:02d}.npz"
            virtual.record(k, day).save(folder / name)
            when = (FIRST + timedelta(days=day, minutes=k)).isoformat()
            table.append(f"{name},r{k:0{width}d},{when},{virtual.temperature(k, day):.2f}")
        if progress is not None:
            progress((k + 1) / robots)
    unit = model.mechanism.joint(motors[0]).unit
    wrong = [*((k, f"drift,dry friction of {joint} changes by {100 * size:+.0f} %")
               for k, (joint, size) in drift.items()),
             *((k, f"mistake,effort of {motor} is recorded {size:g} times") for k, (motor, size) in gain.items()),
             *((k, f"mistake,position of {motor} is recorded {size:+.3g} {unit} off")
               for k, (motor, size) in encoder.items()),
             *((k, f"mistake,carries a load on day {own[0]} that no log mentions") for k, own in load.items())]
    truth = [f"r{k:0{width}d},{text}" for k, text in wrong]
    write_text(folder / "logs.csv", "\n".join(table) + "\n")
    write_text(folder / "truth.csv", "\n".join(["robot,kind,text", *truth]) + "\n")
    write_text(folder / "fleet.toml", toml_text({"format": FORMAT, "robot": robot, "logs": "logs.csv",
                                                 "tie_legs": bool(model.mechanism.ties), "factors": "factors"}))
    return Written(files=tuple(folder / name for name in ("logs.csv", "fleet.toml", "truth.csv")))
