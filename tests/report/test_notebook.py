"""At a prompt and in a notebook: names complete, values show themselves, wrong arguments are told
by name.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import gough
from gough.core.display import relative, rounded
from gough.core.errors import InvalidInput

sys.path.insert(0, str(Path(__file__).parent))
from examples import motion, result, robot


@pytest.fixture(autouse=True)
def _closed_figures() -> Iterator[None]:
    yield
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None:
        pyplot.close("all")


def a_log(samples: int = 400) -> gough.Recording:
    model = robot("five_bar")
    move = motion(model, 1, samples)
    rng = np.random.default_rng(0)
    effort = model.inverse_dynamics(move) + 0.01 * rng.standard_normal((samples, 2))
    return gough.Recording.from_arrays(
        ["left.motor", "right.motor"],
        time=move.time,
        position=move.q[:, list(model.actuated)],
        effort=effort,
        units={"position": "rad", "effort": "N m"},
        source="memory",
    )


def test_every_public_name_completes() -> None:
    assert [name for name in dir(gough) if not name.startswith("_")] == sorted(gough.__all__)
    for name in gough.__all__:
        assert getattr(gough, name).__doc__, name


def every_value() -> list[object]:
    found = result("five_bar")
    return [
        found,
        found.estimate,
        found.validation,
        found.base,
        found.enclosures["lp"],
        robot("five_bar"),
        a_log(),
        robot("five_bar").mechanism,
        gough.check("five_bar"),
        found.fits[0],
    ]


@pytest.mark.parametrize("value", every_value(), ids=lambda v: type(v).__name__)
def test_values_are_short_at_a_prompt(value: object) -> None:
    assert 10 < len(repr(value)) < 300
    assert "array([" not in repr(value)


def test_tables_are_the_values() -> None:
    found = result("five_bar")
    frame = found.to_dataframe()
    assert list(frame.index) == list(found.estimate.parameters)
    assert np.array_equal(frame["value"], found.estimate.values)
    assert np.array_equal(
        found.enclosures["lp"].to_dataframe()["upper"], found.enclosures["lp"].upper
    )
    assert np.array_equal(found.validation.to_dataframe()["rms"], found.validation.rms)
    assert (
        found.base.to_dataframe().loc[found.base.names[0], "formula"]
        == found.base.regrouping()[found.base.names[0]]
    )
    log = a_log()
    again = gough.Recording.from_dataframe(log.to_dataframe())
    assert np.array_equal(again.position, log.position)
    assert np.array_equal(again.time, log.time)


def test_html_is_a_table_and_escapes_names() -> None:
    log = gough.Recording(
        joints=("<b>x",),
        time=np.arange(3.0),
        position=np.arange(3.0)[:, None],
        position_units=("m",),
        source="<script>",
    )
    html = log._repr_html_()
    assert "<b>x" not in html
    assert "<script>" not in html
    assert "&lt;b&gt;x.position" in html
    assert result("five_bar")._repr_html_().count("<tr>") == len(result("five_bar").estimate) + 1


def test_pictures_show_what_was_recorded_and_found() -> None:
    found, log = result("five_bar"), a_log()
    assert np.array_equal(log.plot()[0].lines[1].get_ydata(), log.position[:, 1])
    panels = found.plot()
    assert len(panels) == len(found.fits) * len(found.estimate.rows)
    assert np.array_equal(panels[1].lines[1].get_ydata(), found.fits[0].predicted[:, 1])
    points = found.estimate.plot().lines[0].get_xdata()
    assert np.allclose(points, found.estimate.values / found.estimate.std)


def test_friction_curves_are_the_terms_of_each_joint() -> None:
    found = result("five_bar")
    names = [n for n in found.estimate.parameters if n.kind in ("fv", "fs")]
    axes = found.plot_friction(speed=0.5)
    assert {a.get_title(loc="left").partition(":")[0] for a in axes} == {n.owner for n in names}
    for each in axes:
        owner = each.get_title(loc="left").partition(":")[0]
        own = {n.kind: found.estimate[n] for n in names if n.owner == owner}
        qd, effort = each.lines[0].get_data()
        assert np.allclose(effort, own.get("fv", 0.0) * qd + own.get("fs", 0.0) * np.sign(qd))


def test_a_robot_is_a_name_a_path_a_mechanism_or_a_model(tmp_path: Path) -> None:
    from gough.mechanism import robot_text

    (tmp_path / "mine.toml").write_text(robot_text("five_bar")[0])
    counts = {
        len(gough.check(each).base)
        for each in (
            "five_bar",
            tmp_path / "mine.toml",
            str(tmp_path / "mine.toml"),
            gough.load_robot("five_bar"),
            robot("five_bar"),
        )
    }
    assert len(counts) == 1


def test_one_log_is_enough_and_may_be_a_path_or_a_frame(tmp_path: Path) -> None:
    log = a_log()
    log.save(tmp_path / "log.csv")
    answers = [
        gough.identify(
            robot("five_bar"), each, method="time", cutoff=20.0, window=0.0
        ).estimate.values
        for each in (
            log,
            [log],
            log.to_dataframe(),
            tmp_path / "log.csv",
            [str(tmp_path / "log.csv")],
        )
    ]
    for answer in answers[1:]:
        assert np.array_equal(answer, answers[0])


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda: gough.identify(3, []),
            "the robot is 3, expected a Model, a Mechanism, a bundled name or the path",
        ),
        (
            lambda: gough.identify("five_bar", 3),
            "recordings is 3, expected a Recording, the path of a log",
        ),
        (
            lambda: gough.identify("five_bar", a_log(), held_out=[None]),
            "held_out is None, expected a Recording",
        ),
        (lambda: gough.identify("five_bar", {"q": [1]}), "recordings is a dict, expected"),
        (
            lambda: gough.simulate("five_bar", 1.0),
            "the trajectory is 1.0, expected what gough.design",
        ),
        (
            lambda: gough.write_report("five_bar", "result", "x.html"),
            "identification is 'result', expected what",
        ),
        (lambda: gough.check(None), "the robot is None, expected a Model"),
        (lambda: gough.diagnose("five_bar", 2), "recordings is 2, expected"),
        (lambda: gough.load_robot(None), "the robot is None, expected a bundled name or the path"),
        (
            lambda: gough.Model("five_bar"),
            "the mechanism is 'five_bar', expected what gough.load_robot returned",
        ),
        (lambda: gough.read_recording(5), "the log is 5, expected the path of a file"),
        (lambda: gough.load_identification(5), "the result is 5, expected the folder"),
    ],
)
def test_wrong_arguments_are_told_by_name(call, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        call()


def test_without_the_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(
        InvalidInput, match=r"needs pandas; install it with pip install 'gough\[notebook\]'"
    ):
        result("five_bar").to_dataframe()


@pytest.mark.parametrize(
    ("value", "std", "texts"),
    [
        (1.23456789, 0.0123, ("1.235", "0.012")),
        (-0.0001234, 0.00000567, ("-1.234e-04", "0.057e-04")),
        (123456.0, 3512.0, ("123500", "3500")),
        (0.0002, 0.31, ("0.00", "0.31")),
        (2.0, 0.0, ("2", "0")),
        (1.0, 1e-20, ("1.00000000000e+00", "0.00000000000e+00")),
        (-0.001, 0.31, ("0.00", "0.31")),
        (-1e-9, 1.9e-5, ("0.0e-05", "1.9e-05")),
    ],
)
def test_digits_fit_the_standard_deviation(
    value: float, std: float, texts: tuple[str, str]
) -> None:
    assert rounded(value, std) == texts


def test_near_zero_the_distance_from_zero_is_told_instead_of_a_percentage() -> None:
    assert relative(1.0, 0.1) == "10 %"
    assert relative(-0.01, 0.1) == "|t| = 0.1"
    assert relative(0.21, 0.1) == "47.6 %"
