"""Real robots whose logs lie beside the project: their robot files, made here, and their
recordings.

The measurements are not ours to hand on (see PROVENANCE.md beside each); where they are absent,
`available` says so.
"""

from __future__ import annotations

import csv
import gzip
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from gough.engine import Model
from gough.logs.readers import read_recording
from gough.logs.recording import Recording
from gough.mechanism import parse_robot
from tests_support import axis_file, model_of

ROOT = Path(__file__).parents[2]
DATA = ROOT.parent / "shared" / "data"
EXAMPLES = ROOT / "examples"

UPV_RUNS = {
    "exp_20_01_2021-16_15_33": "upv_run.toml",
    "exp_01_02_2021-10_29_52": "upv_run_mocap.toml",
    "exp_20_01_2021-13_37_26": "upv_run_voltage.toml",
}
PENDULUM_LOGS = ("143339", "143524", "143601", "143704", "143747")
TX40_GEAR = np.array([32.0, 32.0, 45.0, -48.0, 45.0, 32.0])
TX40_JOINTS = tuple(f"joint_{k}" for k in range(1, 7))


def available(name: str) -> bool:
    """Tell whether the measurements of a robot are here."""
    return (DATA / name).is_dir()


def _numbers(text: str) -> list[float]:
    return [float(x) for x in text.split()]


def _table(**keys: object) -> str:
    def value(v: object) -> str:
        if isinstance(v, bool):
            return str(v).lower()
        if isinstance(v, str):
            return f'"{v}"'
        if isinstance(v, Sequence):
            return "[" + ", ".join(value(x) for x in v) + "]"
        return repr(v)

    return "\n".join(f"{name} = {value(v)}" for name, v in keys.items())


def tx40_text() -> str:
    """Robot file of the arm of its URDF; motor 6 turns with joints 5 and 6, so it rubs at a
    coordinate of its own.
    """
    root = ET.parse(DATA / "staubli_tx40" / "tx40.urdf").getroot()
    parts = ['format = 1\nname = "tx40"\n[units]\nlength = "m"\nangle = "rad"\nmass = "kg"']
    links = {link.get("name"): link for link in root.findall("link")}
    for joint in root.findall("joint"):
        if joint.get("type") == "fixed":
            continue
        parent, child = (str(joint.find(end).get("link")) for end in ("parent", "child"))  # type: ignore[union-attr]
        inertial = links[child].find("inertial")
        origin, inertia = inertial.find("origin"), inertial.find("inertia")  # type: ignore[union-attr]
        values = {
            f"I{a}{b}": float(inertia.get(f"i{a}{b}"))  # type: ignore[union-attr, arg-type]
            for a, b in ("xx", "xy", "xz", "yy", "yz", "zz")
        }
        parts.append(
            "[[body]]\n"
            + _table(
                name=child,
                m=float(inertial.find("mass").get("value")),  # type: ignore[union-attr, arg-type]
                com=_numbers(origin.get("xyz")),
                about="com",
                **values,
            )
        )  # type: ignore[union-attr, arg-type]
        place = joint.find("origin")
        parts.append(
            "[[joint]]\n"
            + _table(
                name=str(joint.get("name")),
                type="revolute",
                parent="base" if parent == "base_link" else parent,
                child=child,
                xyz=_numbers(place.get("xyz")),
                rpy=_numbers(place.get("rpy")),  # type: ignore[union-attr, arg-type]
                actuated=True,
                terms=["ia", "fv", "fs", "off"],
            )
        )
    parts.append("[[body]]\n" + _table(name="rotor", parameters=[]))
    parts.append(
        "[[joint]]\n"
        + _table(
            name="motor_6", type="revolute", parent="base", child="rotor", terms=["ia", "fv", "fs"]
        )
    )
    parts.append(
        '[[closure]]\nname = "wrist"\nkind = "coupling"\n'
        "coefficients = { motor_6 = 1, joint_5 = -1, joint_6 = -1 }"
    )
    return "\n\n".join(parts)


def tx40() -> Model:
    """The arm of its URDF."""
    return Model(parse_robot(tx40_text(), "tx40"))


def tx40_log() -> Recording:
    """The run on the joints' side: positions and torques of joints from those of motors."""

    def columns(name: str) -> np.ndarray:
        return np.loadtxt(DATA / "staubli_tx40" / name, delimiter=",", skiprows=1)

    motor, torque = columns("pos_read_data.csv.gz"), columns("curr_data.csv.gz")
    q = motor / TX40_GEAR
    q[:, 5] -= q[:, 4]
    q += np.array([0.0, -np.pi / 2, np.pi / 2, 0.0, 0.0, 0.0])
    effort = torque * TX40_GEAR
    effort[:, 4] += 32.0 * torque[:, 5]
    return Recording(
        joints=TX40_JOINTS,
        time=np.arange(len(q)) * 2e-4,
        position=q,
        position_units=("rad",) * 6,
        effort=effort,
        source="tx40",
    )


PENDULUM = """
format = 1
name = "double_pendulum"
[units]
length = "m"
angle = "rad"
mass = "kg"
[[body]]
name = "upper"
m = 0.6
com = [0.2, 0, 0]
about = "com"
Izz = 0.01
[[body]]
name = "lower"
m = 0.5
com = [0.25, 0, 0]
about = "com"
Izz = 0.01
[[joint]]
name = "shoulder"
type = "revolute"
parent = "base"
child = "upper"
rpy = [1.5707963267948966, 1.5707963267948966, 0]
actuated = true
terms = ["ia", "fv", "fs", "off"]
[[joint]]
name = "elbow"
type = "revolute"
parent = "upper"
child = "lower"
xyz = [0.2, 0, 0]
actuated = true
terms = ["ia", "fv", "fs", "off"]
"""


def pendulum() -> Model:
    """Two links that hang down at zero."""
    return Model(parse_robot(PENDULUM, "double_pendulum"))


def pendulum_log(name: str) -> Recording:
    """One run, on its own uneven clock."""
    with gzip.open(DATA / "double_pendulum" / f"{name}.csv.gz", "rt") as file:
        rows = list(csv.DictReader(file))

    def columns(*names: str) -> np.ndarray:
        return np.array([[float(row[n]) for n in names] for row in rows])

    return Recording(
        joints=("shoulder", "elbow"),
        time=columns("time")[:, 0],
        position=columns("pos_meas1", "pos_meas2"),
        position_units=("rad", "rad"),
        effort=columns("tau_meas1", "tau_meas2"),
        source=name,
    )


EMPS = axis_file('terms = ["fv", "fs", "off"]', name="emps", joint="slider", mass=95)


def emps() -> Model:
    """One horizontal axis."""
    return Model(parse_robot(EMPS, "emps"))


def emps_log() -> Recording:
    """The benchmark's run."""
    return read_recording(DATA / "emps" / "DATA_EMPS.mat", EXAMPLES / "emps.toml")


def upv() -> Model:
    """The bundled robot."""
    return model_of("upv")


def upv_log(run: str) -> Recording:
    """One run."""
    return read_recording(DATA / "upv_3ups_rpu" / run, EXAMPLES / UPV_RUNS[run])
