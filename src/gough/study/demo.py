"""The whole job on a bundled robot: a study that comes with Gough, and the truth to compare its result with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib import resources
from importlib.util import find_spec
from typing import Any

from gough.core.errors import InvalidInput, nearest
from gough.core.files import require_free_folder, write_text
from gough.core.names import Parameter
from gough.engine import as_model, base_parameters
from gough.estimators.estimate import Estimate
from gough.study.run import read_study, run_step


def demo_study(robot: str) -> str:
    """Return the study of a demo, whose first line tells what it is about.

    Recordings come from Pinocchio's plant where that is installed, else from Gough's own.
    """
    folder = resources.files("gough") / "demos"
    known = [entry.name.removesuffix(".toml") for entry in folder.iterdir()]
    if robot not in known:
        raise InvalidInput(f"there is no demo of '{robot}'{nearest(robot, known)}")
    text = (folder / f"{robot}.toml").read_text(encoding="utf-8")
    return text if find_spec("pinocchio") is not None else text.replace('"pinocchio"', '"gough"')


def run_demo(robot: str, output: str, *, force: bool = False,
             tell: Callable[[str, float], None] | None = None) -> Iterator[tuple[str, Mapping[str, Any], Any]]:
    """Run a demo into a folder; yields verb, options and result of each step. Writes `study.toml` first.

    `tell` is called with a verb and its fraction done.
    """
    text = demo_study(robot)
    folder = require_free_folder(output, force)
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / "study.toml", text)
    for verb, options in read_study(folder / "study.toml"):
        yield verb, options, run_step(verb, options, folder=folder.resolve(), force=True,
                                      progress=None if tell is None else partial(tell, verb))


def truth_table(robot: str, estimate: Estimate, tie_legs: bool) -> list[tuple[str, float, float, float, bool]]:
    """Return name, true value, estimate, standard deviation, and whether the 95 % interval holds the truth."""
    model = as_model(robot)
    payloads = dict.fromkeys(n.payload for n in estimate.parameters if n.payload is not None)
    base = base_parameters(model, tie_legs=tie_legs, payloads=tuple(payloads))
    true = dict(zip(base.names, base.values(model.values(base.standard))))
    for joint in model.mechanism.joints:
        if joint.gain is not None:
            true[Parameter.gain(joint.name)] = joint.gain
    found = zip(estimate.parameters, estimate.values.tolist(), estimate.std.tolist(), estimate.interval(0.95))
    return [(name, float(true[name]), value, std, bool(low <= true[name] <= high))
            for name, value, std, (low, high) in found]
