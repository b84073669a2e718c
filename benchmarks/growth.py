"""How compile time grows with the robot: python benchmarks/growth.py [--small]

Serial chains and platforms on many legs, from the robot to its base parameters, with an empty cache.
Processor time, and that of the machine code in it. Beside it the largest relative difference between
regressor times parameters and the inverse dynamics, which are kernels of their own.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib import resources
from unittest.mock import patch

import numpy as np

from gough.engine import Model
from gough.engine.base import base_parameters, random_motion
from gough.kernels.kernel import Compiler
from gough.mechanism.reader import parse_robot
from gough.mechanism.types import Mechanism

CHAIN_HEAD = """
format = 1
name = "chain"
gravity = [0, 0, -9.81]

[units]
length = "m"
angle = "deg"
mass = "kg"
"""
CHAIN_LINK = """
[[body]]
name = "link{i}"
m = 1.0
mx = 0.05
my = 0.02
mz = -0.03
Ixx = 0.03
Iyy = 0.04
Izz = 0.035

[[joint]]
name = "joint{i}"
type = "revolute"
parent = "{parent}"
child = "link{i}"
actuated = true
mdh = {{ d = 0.1, alpha = {twist} }}
terms = ["fv", "fs"]
values = {{ fv = 0.1, fs = 0.2 }}
"""
LEG = (
    '    {{ name = "leg{i}", base = {{ polar = [0.4, {angle}] }}, attach = [0.12, {attached}, 0.1174], '
    "beta = 90, fs = 10, fv = 20 }},\n"
)


def chain(joints: int) -> Mechanism:
    """Return a serial chain of revolute joints with crossed axes."""
    text = CHAIN_HEAD
    for i in range(joints):
        parent = f"link{i - 1}" if i else "base"
        text += CHAIN_LINK.format(i=i, parent=parent, twist=90 if i % 2 else -90)
    return parse_robot(text, "chain.toml")


def hexapod(legs: int) -> Mechanism:
    """Return a PaLiDA on more legs than it needs, with a motor each."""
    text = (resources.files("gough.robots") / "palida.toml").read_text(encoding="utf-8")
    instances = ""
    for i in range(legs):
        angle = 360 / legs * i
        attached = angle + (20 if i % 2 else -20)
        instances += LEG.format(i=i, angle=angle, attached=attached)
    head, rest = text.split("instances = [", 1)
    tail = rest.split("]\n\n[[leg.body]]", 1)[1]
    text = f"{head}instances = [\n{instances}]\n\n[[leg.body]]{tail}"
    return parse_robot("redundant = true\n" + text, "hexapod.toml")


def measure(mechanism: Mechanism) -> tuple[float, float, int, float]:
    """Return processor time, that of LLVM, base parameters and the difference of efforts."""
    llvm_seconds = 0.0
    compile_module = Compiler.compile

    def timed_compile(compiler: Compiler, text: str) -> bytes:
        nonlocal llvm_seconds
        before = time.process_time()
        code = compile_module(compiler, text)
        llvm_seconds += time.process_time() - before
        return code

    with patch.object(Compiler, "compile", timed_compile):
        start = time.process_time()
        model = Model(mechanism)
        base = base_parameters(model)
        seconds = time.process_time() - start
    motion = random_motion(model, 20)
    values = model.standard_values()
    rows = list(model.independent)
    names = mechanism.standard.names
    context = np.ones((20, len(model.home)))
    kinematics = (motion.q, motion.qd[:, rows], motion.qdd[:, rows])
    regressor = model.regressor_kernel(names)(*kinematics, context)[0]
    efforts = model.effort_kernel()(*kinematics, context, values, model.load())[0]
    difference = np.abs(regressor @ values - efforts).max() / np.abs(efforts).max()
    return seconds, llvm_seconds, len(base.names), float(difference)


def main(chains: Sequence[int] = (10, 20, 40), platforms: Sequence[int] = (6, 8, 12)) -> None:
    """Print one line for each robot."""
    print(f"{'robot':20s}{'seconds':>9s}{'LLVM':>7s}{'base':>6s}{'difference':>12s}")
    robots = [(f"chain of {n} joints", chain(n)) for n in chains]
    robots += [(f"platform on {n} legs", hexapod(n)) for n in platforms]
    for name, mechanism in robots:
        with tempfile.TemporaryDirectory() as folder:
            os.environ["GOUGH_CACHE_DIR"] = folder
            seconds, llvm_seconds, base, difference = measure(mechanism)
        print(f"{name:20s}{seconds:9.2f}{llvm_seconds:7.2f}{base:6d}{difference:12.1e}", flush=True)


if __name__ == "__main__":
    if "--small" in sys.argv:
        main([3, 5], [])
    else:
        main()
