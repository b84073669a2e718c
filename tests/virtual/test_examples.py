"""The examples' own statements, on a shortened scale."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from gough.virtual import PID, ComputedTorque
from gough.virtual.reference import build_reference
from tests_support import model_of

EXAMPLES = Path(__file__).parents[2] / "examples"


def example(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)
    spec.loader.exec_module(module)
    return module


def test_mass_matrix_of_the_stewart_platform_is_the_printed_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """(18) of S20 with the misprints of its diagonal corrected."""
    stewart = example("stewart_hydraulic", monkeypatch)
    M = stewart.task_mass_matrix(model_of("stewart"), "load")
    np.testing.assert_allclose(M, stewart.printed_mass_matrix(), atol=1e-9)


@pytest.mark.long
def test_palida_controllers_rank_as_in_figure_6_and_errors_grow_with_speed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    palida = example("palida_control", monkeypatch)
    found = palida.errors(model_of("palida"), (0.35, 0.7))
    slow, fast = np.array(
        [found[name] for name in ("no model", "a-priori model", "identified model")]
    ).T
    assert fast[0] > fast[1] > 100 * fast[2]
    assert min(slow[:2]) > 100 * slow[2]
    assert (fast[:2] > 2 * slow[:2]).all()


def test_orthoglide_strategies_rank_as_in_table_4(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Controllers as given; the identified ones are the example's own business."""
    orthoglide = example("orthoglide_control", monkeypatch)
    model = model_of("orthoglide")
    for trajectory in orthoglide.trajectories(model).values():
        assert build_reference(model, trajectory, 1000.0).motion.time[-1] > 1.0
    circle = orthoglide.trajectories(model)["trajectory 1"]
    monkeypatch.setattr(orthoglide, "trajectories", lambda _: {"circle": circle})
    true = np.array(orthoglide.IDENTIFIED)
    strategies = {
        name: orthoglide.Strategy(law, true)
        for name, law in (
            ("simple", PID(bandwidth=100.0)),
            ("advanced", PID(bandwidth=100.0, velocity_feedforward=True)),
            ("ctc", ComputedTorque(bandwidth=100.0)),
        )
    }
    table, panels = orthoglide.compare(model, strategies)
    worst = {line.split()[0]: float(line.split()[1]) for line in table.splitlines()[2:]}
    assert worst["simple"] > 5 * worst["advanced"] > 25 * worst["ctc"]
    plot = example("line_plot", monkeypatch)
    (axes,) = plot.draw(panels, logarithmic=True).axes
    assert [line.get_label() for line in axes.lines] == list(strategies)
    assert axes.get_yscale() == "log"
    for name in ("a.svg", "b.svg"):
        plot.save(tmp_path / "new" / name, panels, logarithmic=True)
    assert (tmp_path / "new" / "a.svg").read_bytes() == (tmp_path / "new" / "b.svg").read_bytes()
