"""The core identifies a robot without the optional packages, and each of these can be deleted."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from gough.logs.recording import Recording

SOURCE = Path(__file__).parents[2] / "src"
CORE = (
    "core",
    "kernels",
    "fitting",
    "mechanism",
    "logs",
    "engine",
    "processing",
    "identification",
    "verdict",
)
OPTIONAL = ("bounding", "excitation", "virtual", "export", "formats", "fleets")

# Refuses packages like an installation from which they were deleted, then imports every module of
# others. Arguments: refused packages and imported packages, both separated by commas, once or more:
# everything of Gough is forgotten in between.
IMPORT_ALL = """
import importlib
import pkgutil
import sys

refused = []


class Deleted:
    def find_spec(self, name, path=None, target=None):
        if name.startswith("gough.") and name.split(".")[1] in refused:
            raise ModuleNotFoundError(f"No module named '{name}'", name=name)


def import_without(packages, others):
    for name in [name for name in sys.modules if name.split(".")[0] == "gough"]:
        del sys.modules[name]
    refused[:] = packages
    for package in others:
        module = importlib.import_module(f"gough.{package}")
        for entry in pkgutil.walk_packages(module.__path__, f"gough.{package}."):
            importlib.import_module(entry.name)


sys.meta_path.insert(0, Deleted())
pairs = sys.argv[1].split(";")
for pair in pairs:
    packages, others = pair.split(":")
    import_without(packages.split(","), others.split(","))
"""

# Second argument: a log as .npz.
IDENTIFY = """
import numpy as np

from gough.app.identify import identify
from gough.logs.recording import Recording

log = np.load(sys.argv[2])
recording = Recording(
    joints=tuple(log["joints"].tolist()),
    time=log["time"],
    position=log["position"],
    position_units=tuple(log["position_units"].tolist()),
    effort=log["effort"],
    period_samples=int(log["period_samples"]),
)
result = identify("five_bar", recording, estimator="wls")
assert np.isfinite(result.estimate.values).all()
assert (result.estimate.std > 0).all()
print(len(result.estimate.values), "parameters")
"""


def run_without(
    cases: list[tuple[tuple[str, ...], tuple[str, ...]]], script: str, *arguments: str
) -> subprocess.CompletedProcess[str]:
    """Run a script in a Python of its own, in which some packages of Gough cannot be imported.

    Args:
        cases: Packages refused, and packages imported.
        script: What runs, `IMPORT_ALL` or more.
        *arguments: Given to the script.
    """
    words = [f"{','.join(refused)}:{','.join(imported)}" for refused, imported in cases]
    return subprocess.run(
        [sys.executable, "-c", script, ";".join(words), *arguments],
        env=os.environ | {"PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_core_identifies_a_robot_without_all_optional_packages(
    five_bar_log: Recording, tmp_path: Path
) -> None:
    path = tmp_path / "log.npz"
    assert five_bar_log.effort is not None
    np.savez(
        path,
        joints=five_bar_log.joints,
        time=five_bar_log.time,
        position=five_bar_log.position,
        position_units=five_bar_log.position_units,
        effort=five_bar_log.effort,
        period_samples=five_bar_log.period_samples,
    )
    child = run_without([(OPTIONAL, CORE)], IMPORT_ALL + IDENTIFY, str(path))
    assert child.returncode == 0, child.stderr
    assert child.stdout.strip().endswith("parameters")


def test_each_package_can_be_deleted_alone() -> None:
    cases = []
    for package in OPTIONAL:
        others = tuple(name for name in OPTIONAL if name != package)
        cases.append(((package,), others))
    child = run_without(cases, IMPORT_ALL)
    assert child.returncode == 0, child.stderr


def test_a_deleted_package_cannot_be_imported() -> None:
    child = run_without([(("bounding",), ("bounding",))], IMPORT_ALL)
    assert child.returncode != 0
    assert "No module named 'gough.bounding'" in child.stderr
