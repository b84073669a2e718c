"""Robots in the words of other programs, and the efforts of their trees for comparison."""

from __future__ import annotations

from pathlib import Path

import casadi as ca
import numpy as np

from gough.engine.symbolic import TreeEfforts
from gough.formats.read import read_tree
from gough.formats.robot_description import Description, describe
from gough.mechanism import Mechanism, parse_robot

# A tree with all that URDF has: odd axes, fixed joints between and at the end, friction, names
# nobody should give.
ARM = """<?xml version="1.0"?>
<robot name="7 arm">
  <link name="base_link"><inertial><mass value="3"/></inertial></link>
  <link name="1/shoulder">
    <inertial><origin xyz="0.1 0.02 -0.03" rpy="0.3 0.2 0.1"/><mass value="2.5"/>
      <inertia ixx="0.03" ixy="0.001" ixz="-0.002" iyy="0.04" iyz="0.003" izz="0.05"/></inertial></link>
  <link name="bracket">
    <inertial><origin xyz="0 0.05 0" rpy="0 0 1"/><mass value="0.7"/>
      <inertia ixx="0.002" ixy="0" ixz="0" iyy="0.003" iyz="0" izz="0.004"/></inertial></link>
  <link name="slider"><inertial><origin xyz="0 0 0.1"/><mass value="1.1"/>
      <inertia ixx="0.01" ixy="0" ixz="0" iyy="0.012" iyz="0.001" izz="0.013"/></inertial></link>
  <link name="wrist"><inertial><origin xyz="0.02 0 0.1"/><mass value="0.4"/>
      <inertia ixx="0.001" ixy="0" ixz="0" iyy="0.001" iyz="0" izz="0.0008"/></inertial></link>
  <link name="base"><inertial><origin xyz="0 0 0.03"/><mass value="0.2"/>
      <inertia ixx="1e-4" ixy="0" ixz="0" iyy="1e-4" iyz="0" izz="1e-4"/></inertial></link>
  <link name="tip"/>
  <joint name="1/turn" type="revolute">
    <origin xyz="0.1 0.2 0.3" rpy="0.4 -0.5 0.6"/><parent link="base_link"/><child link="1/shoulder"/>
    <axis xyz="0.3 -0.4 0.866"/><limit lower="-2" upper="2" effort="30" velocity="4"/>
    <dynamics damping="0.5" friction="0.2"/></joint>
  <joint name="weld" type="fixed"><origin xyz="0.2 0 0.1" rpy="0 0.7 0"/><parent link="1/shoulder"/>
    <child link="bracket"/></joint>
  <joint name="slide" type="prismatic">
    <origin xyz="0 0.1 0" rpy="1.1 0 0"/><parent link="bracket"/><child link="slider"/><axis xyz="0 -1 0"/>
    <limit lower="-0.2" upper="0.3" effort="100" velocity="1"/></joint>
  <joint name="roll" type="continuous"><origin xyz="0 0 0.2"/><parent link="slider"/><child link="wrist"/>
    <axis xyz="1 0 0"/></joint>
  <joint name="bend" type="revolute"><origin xyz="0 0 0.1" rpy="0 0 0.2"/><parent link="wrist"/><child link="base"/>
    <axis xyz="0 0 2"/><limit lower="-1" upper="1" effort="5" velocity="2"/></joint>
  <joint name="end" type="fixed"><origin xyz="0 0 0.1"/><parent link="base"/><child link="tip"/></joint>
</robot>
"""

# An arm whose right angles are {half} and {whole}; between two of its links a third one sits on it
# by more of them.
SQUARE = (
    """<robot name="square"><link name="ground"/>"""
    + "".join(
        f"""<link name="l{k}"><inertial><origin xyz="0.1 0.02 0.03" rpy="0.1 0.2 0.3"/><mass value="{2 + k}"/>
      <inertia ixx="0.1" iyy="0.12" izz="0.13" ixy="0.01" ixz="0.002" iyz="0.003"/></inertial></link>
    <joint name="j{k}" type="{kind}"><origin xyz="0.1 0 {0.2 + 0.01 * k}" rpy="{turn}"/><parent link="{parent}"/>
      <child link="l{k}"/><axis xyz="{axis}"/><limit lower="-1.2" upper="1.2" velocity="2.5" effort="9"/></joint>"""
        for k, (kind, turn, axis, parent) in enumerate(
            (
                ("revolute", "{half} 0 0", "0 0 1", "ground"),
                ("revolute", "-{half} 0 0.3", "0 0 1", "l0"),
                ("fixed", "0 {half} 0", "0 0 1", "l1"),
                ("revolute", "{half} 0 {half}", "0 1 0", "l2"),
                ("prismatic", "{whole} 0 0", "0 0 -1", "l3"),
                ("revolute", "0 {half} {whole}", "1 0 0", "l4"),
            )
        )
    )
    + "</robot>"
)
RIGHT = ("1.5707963267948966", "3.141592653589793")

# The same four-bar twice: with a sidecar, and natively closed.
BARS = """<robot name="four_bar">
  <link name="ground"/>
  {links}
  <joint name="crank" type="revolute"><parent link="ground"/><child link="a"/><axis xyz="0 1 0"/></joint>
  <joint name="rocker" type="revolute"><origin xyz="0.5 0 0"/><parent link="ground"/><child link="c"/>
    <axis xyz="0 1 0"/></joint>
  <joint name="knee" type="revolute"><origin xyz="0.2 0 0"/><parent link="a"/><child link="b"/>
    <axis xyz="0 1 0"/></joint>
  <link name="end_b"/><link name="end_c"/>
  <joint name="end_b_frame" type="fixed"><origin xyz="0.6 0 0"/><parent link="b"/><child link="end_b"/></joint>
  <joint name="end_c_frame" type="fixed"><origin xyz="0.4 0 0"/><parent link="c"/><child link="end_c"/></joint>
</robot>
""".replace(
    "{links}",
    "".join(
        f'<link name="{name}"><inertial><origin xyz="{x} 0 0"/><mass value="{m}"/>'
        f'<inertia ixx="0.001" ixy="0" ixz="0" iyy="{m / 50}" iyz="0" '
        f'izz="{m / 50}"/></inertial></link>'
        for name, x, m in (("a", 0.1, 0.5), ("b", 0.3, 1.2), ("c", 0.2, 0.8))
    ),
)
BARS_YAML = "closed_loop: [[end_b, end_c]]\ntype: [3d]\nname_mot: [crank]\n"


def described(text: str, name: str, loops: str | None = None) -> tuple[Description, Mechanism]:
    """Read a robot; without motors in the file all its joints are."""
    tree = read_tree(text, name, loops)
    if not any(joint.actuated for joint in tree.joints):
        tree = tree.with_motors(tree.one_motion_joints())
    done = describe(tree, name)
    return done, parse_robot(done.text, name)


def tree_efforts(
    mechanism: Mechanism,
    q: np.ndarray,
    qd: np.ndarray,
    qdd: np.ndarray,
    without: tuple[str, ...] = ("fs",),
) -> np.ndarray:
    """Efforts of the open tree at samples (t, n), some joint terms left out."""
    n, values = len(mechanism.joints), mechanism.standard.as_dict()
    symbols = [ca.SX.sym(name, n) for name in ("q", "qd", "qdd")]
    tree = TreeEfforts(mechanism, *symbols, ca.SX.ones(n))
    total = tree.total(
        lambda p: ca.SX(values[p]) if p in values and p.kind not in without else None
    )
    efforts = ca.Function("efforts", symbols, [total])
    return np.array([np.array(efforts(*sample)).ravel() for sample in zip(q, qd, qdd)])


def samples(mechanism: Mechanism, count: int = 4, seed: int = 0) -> np.ndarray:
    """Positions, velocities and accelerations drawn at random, (3, t, n)."""
    return np.random.default_rng(seed).uniform(-1, 1, (3, count, len(mechanism.joints)))


def written(folder: Path, name: str, text: str) -> str:
    """Write a file and return its path."""
    path = folder / name
    path.write_text(text)
    return str(path)
