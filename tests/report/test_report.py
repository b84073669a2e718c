"""The report says what the result says, needs nothing but itself, and lets no name out of its
text.
"""

from __future__ import annotations

import base64
import json
import re
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from gough.app.report import write_report
from gough.app.report.charts import PACKED_HEIGHT, PACKED_WIDTH, Plot, tag, ticks
from gough.app.report.figures import amplitude_density, comparison_charts, extremes
from gough.app.report.numbers import number, percent, unit, with_std
from gough.app.report.report import render
from gough.app.report.scene import frames, robot_scene, skeleton
from gough.app.report.tables import quality_table
from gough.core.errors import InvalidInput, OutputError
from gough.core.notices import Notice
from gough.engine import Model, random_motion
from gough.identification import Fit, Identification
from gough.identification.diagnosis import Diagnosis, Limit, NamedFault
from gough.mechanism import bundled_robots, load_robot
from gough.processing import Processing, ProcessingChoice
from gough.processing.choice import Candidate

sys.path.insert(0, str(Path(__file__).parent))
from examples import HOSTILE, choice, hostile, motion, result, robot

KINDS = ["five_bar", "palida", "serial6", "redundant", "h4", "orthoglide"]
SECTIONS = [
    "verdict",
    "parameters",
    "prediction",
    "residuals",
    "correlation",
    "comparison",
    "experiment",
    "essential",
]


class Page(HTMLParser):
    """Elements of a page with their attributes, the text of its cells, and the contents of its
    scripts.
    """

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.rows: list[tuple[str, list[str]]] = []
        self.tables: list[list[tuple[str, list[str]]]] = []
        self.scripts: list[str] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.elements.append((tag, given))
        if tag == "script":
            self.scripts.append("")
        if tag == "table":
            self.tables.append([])
        if tag == "tr":
            self.tables[-1].append((given.get("class") or "", []))
        if tag in ("td", "th"):
            self.tables[-1][-1][1].append("")
        if tag not in ("meta", "wbr", "br", "input"):
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if "script" in self._open:
            self.scripts[-1] += data
        elif "style" not in self._open:
            self.text += data
            if self._open and {"td", "th"} & set(self._open):
                self.tables[-1][-1][1][-1] += data


def value_of(text: str) -> float:
    """Read a number the way a person does."""
    plain = text.strip().replace("−", "-").replace("∞", "inf")
    mantissa, _, power = plain.partition("·10")
    raised = power.translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789"))
    return float(mantissa) * 10.0 ** (int(raised) if raised else 0)


@pytest.fixture(scope="module")
def page() -> Page:
    return Page(render(robot("five_bar"), result("five_bar")))


# -- what it says


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_of_robot_has_a_complete_report(name: str) -> None:
    page = Page(render(robot(name), result(name)))
    ids = {attributes["id"] for _, attributes in page.elements if attributes.get("id")}
    assert set(SECTIONS) <= ids
    classes = [str(attributes.get("class")) for _, attributes in page.elements]
    assert classes.count("chart effort") == 2 * len(robot(name).rows)
    assert sum(tag == "canvas" for tag, _ in page.elements) == 2


def test_the_parameter_table_equals_the_estimate(page: Page) -> None:
    estimate = result("five_bar").estimate
    header, *rows = page.tables[0]
    assert header[1][:3] == ["Parameter", "Value", "std. error"]
    names = [cells[0].partition("combination: ") for _, cells in rows]
    assert [name for name, _, _ in names] == list(estimate.parameters)
    formulas = result("five_bar").base.regrouping()
    for name, _, formula in names:  # what is no parameter of one body or joint says so
        assert (
            formulas[name].startswith(formula.removesuffix("..."))
            if formula
            else formulas[name] == name
        )
    for (_, cells), value, std, name in zip(
        rows, estimate.values, estimate.std, estimate.parameters
    ):
        assert value_of(cells[1]) == pytest.approx(value, abs=0.06 * std), name
        assert value_of(cells[2]) == pytest.approx(std, rel=0.06), name
        low, high = (value_of(edge) for edge in cells[6].split("…"))
        assert (low, high) == pytest.approx(
            (value - 6 * std, value + 6 * std), rel=1e-3, abs=1e-3 * abs(value)
        )


def test_exactly_the_doubtful_parameters_are_marked(page: Page) -> None:
    estimate = result("five_bar").estimate
    sentences = [f"{notice.where} {notice.text}" for notice in estimate.parameter_notices]
    words = " ".join(sentences).split()
    named = {word.strip(",;:") for word in words} & set(estimate.parameters)
    assert {
        cells[0].partition("combination: ")[0]
        for kind, cells in page.tables[0]
        if kind == "doubtful"
    } == named
    assert named
    assert named != set(estimate.parameters)


def test_a_value_outside_its_guaranteed_bounds_is_marked() -> None:
    good = result("five_bar")
    box = good.enclosures["lp"]
    moved = replace(box, lower=box.lower + 1e3, upper=box.upper + 1e3)
    page = Page(render(robot("five_bar"), replace(good, enclosures={"lp": moved})))
    assert all(
        kind == "doubtful" and "outside the bounds of lp" in cells[-1]
        for kind, cells in page.tables[0][1:]
    )
    assert page.text.count("the value is outside the box") == 2 * len(good.estimate)


@pytest.mark.parametrize(
    ("predicts", "numerics", "words", "colours"),
    [
        ("good", True, ["Good prediction", "Well conditioned"], ["good", "good"]),
        ("fair", True, ["Fair prediction", "Well conditioned"], ["warn", "good"]),
        ("poor", False, ["Poor prediction", "Poorly conditioned"], ["bad", "bad"]),
        ("not tested", True, ["Not validated", "Well conditioned"], ["open", "good"]),
    ],
)
def test_the_verdict_comes_first_and_separates_prediction_from_numerics(
    predicts: str, numerics: bool, words: list[str], colours: list[str]
) -> None:
    good = result("five_bar")
    changed = replace(
        good, validation=replace(good.validation, predicts=predicts, numerics=numerics)
    )
    page = Page(render(robot("five_bar"), changed))
    articles = [str(attributes["class"]) for tag, attributes in page.elements if tag == "article"]
    assert articles == colours
    places = [page.text.index(word) for word in (*words, "Info", "Regroupings")]
    assert places == sorted(places)


def test_parameters_near_zero_are_not_called_poorly_known() -> None:
    good = result("five_bar")
    std = np.abs(good.estimate.values) / 100
    std[:2] = np.abs(good.estimate.values[:2]) * [0.4, 2.0]
    n = len(good.estimate)
    doubtful = replace(good.estimate, covariance=np.diag(std**2))
    page = Page(render(robot("five_bar"), replace(good, estimate=doubtful)))
    assert f"1 of {n} parameters poorly known" in page.text
    assert f"1 of {n} not significantly different from zero" in page.text


def test_drive_gains_and_payload_have_their_own_tables() -> None:
    good = result("orthoglide")
    e = good.estimate
    names = (*(f"leg{k}.q1.gain" for k in (1, 2)), "payload.calibration.m", *e.parameters[3:])
    values = np.concatenate([[2170.0, 2100.0, 1.9], e.values[3:]])
    renamed = replace(e, parameters=names, values=values)
    changed = replace(
        good, estimate=renamed, estimates={}, enclosures={}, nominal_gains={"leg3.q1": 2070.0}
    )
    changed = replace(changed, gain_units={"leg1.q1": "N per %", "leg3.q1": "N per %"})
    page = Page(render(robot("orthoglide"), changed))
    gains = next(table for table in page.tables if table[0][1][0] == "Motor")
    assert [(cells[0], value_of(cells[1])) for _, cells in gains[1:]] == [
        ("leg1.q1", 2170),
        ("leg2.q1", 2100),
        ("leg3.q1", 2070),
    ]
    assert gains[3][1][2] == "as given"
    assert {cells[4] for _, cells in gains[1:]} == {"N per %", "N per unit"}
    listed = [cells[0] for table in page.tables for _, cells in table]
    assert listed.count("payload.calibration.m") == 1
    assert not any(name.endswith(".gain") for name in (cells[0] for _, cells in page.tables[0]))


def test_what_was_known_of_the_payload_is_told() -> None:
    good = result("orthoglide")
    e = good.estimate
    changed = replace(
        good, estimate=replace(e, parameters=("payload.calibration.mz", *e.parameters[1:]))
    )
    for known, words in (
        ({"payload.calibration.m": 1.983}, "Known beforehand: m = 1.983 kg."),
        ({}, None),
    ):
        page = Page(render(robot("orthoglide"), replace(changed, known=known)))
        assert words in page.text if words else "Known beforehand" not in page.text
        payload = next(
            t for t in page.tables if any(cells[0] == "payload.calibration.mz" for _, cells in t)
        )
        assert "Bounds, lp" not in payload[0][1]  # which say nothing about a payload


def test_the_choice_of_the_model_is_told_if_it_was_asked_for(page: Page) -> None:
    assert "Choice of the model" not in page.text
    asked = Page(render(robot("five_bar"), replace(result("five_bar"), structures=choice("both"))))
    friction, symmetry, weak = (
        next(table for table in asked.tables if word in table[0][1])
        for word in ("Friction", "F", "Relative")
    )
    assert [cells[0] for _, cells in friction[1:]] == ["none", "both", "too much"]
    assert [cells[5] for _, cells in friction[1:]] == ["", "advised", "rank lost at both"]
    assert [kind for kind, _ in symmetry[1:]] == ["doubtful", ""]
    assert symmetry[1][1][2] == "1, 811"
    assert weak[1][1] == ["0.020", "0.70 both"]


def test_a_difference_the_robot_file_makes_zero_is_zero(page: Page) -> None:
    assert any(name.endswith("iaR") for name in result("five_bar").base.names)
    for _, cells in page.tables[0][1:]:
        assert cells[7] in ("", "0") or abs(value_of(cells[7])) > 1e-9


def test_pictures_of_many_parameters_are_of_equal_length() -> None:
    good = result("palida")
    answers = {str(k): good.estimate for k in range(6)}
    count = [chart.count("label end") for chart in comparison_charts(good.estimate, answers)]
    assert len(count) > 1
    assert sum(count) == len(good.estimate)
    assert max(count) - min(count) < len(count)


def test_regroupings_and_history_and_quality_and_settings_are_told(page: Page) -> None:
    good = result("five_bar")
    formulas = good.base.regrouping()
    told = [name for name in good.estimate.parameters if name.endswith("R")]
    assert told
    for name in told:
        assert formulas[name] in page.text
    for words in (
        *good.history,
        *(notice.text for notice in good.notices),
        "closure residual",
        "log0.csv",
        "recordings",
        "Gough 0.",
    ):
        assert words.strip() in page.text


def test_fractions_of_valid_equations_are_not_among_the_figures_of_logs(
    five_bar_result: Identification,
) -> None:
    quality = next(iter(five_bar_result.quality.values()))
    assert sum(name.startswith("valid fraction of ") for name in quality) == 2
    headings = [heading for heading, _ in quality_table(five_bar_result)[1]]
    assert headings
    assert not any("valid fraction" in heading for heading in headings)


def test_what_guaranteed_bounds_rest_on_is_told() -> None:
    good = result("five_bar")
    box = replace(
        good.enclosures["lp"],
        certificate={"error_bound": [1.5, 1.5], "removed": [], "gap": 3.55e-15},
        notices=(Notice(rule="outliers", level="info", text="conditional on two rows"),),
    )
    page = Page(render(robot("five_bar"), replace(good, enclosures={"bounds_slow": box})))
    facts = "error bound 1.5; largest difference between proven and attained bounds 3.55e-15"
    assert f"Bounds slow: exact box; {facts}; conditional on two rows" in page.text
    assert page.tables[0][0][1][6] == "Bounds slow"


def test_a_result_without_recordings_still_has_a_report() -> None:
    page = Page(
        render(robot("five_bar"), replace(result("five_bar"), fits=(), estimates={}, enclosures={}))
    )
    assert not any(tag == "canvas" for tag, _ in page.elements)
    assert "Parameters" in page.text


def test_one_parameter_without_noise_and_one_sample_are_enough() -> None:
    good = result("five_bar")
    single = good.estimate.select(good.estimate.parameters[:1])
    exact = replace(single, covariance=np.zeros((1, 1)))
    short = Fit(
        label="identification: x",
        held_out=False,
        time=good.fits[0].time[:1],
        q=good.fits[0].q[:1],
        measured=good.fits[0].measured[:1],
        predicted=good.fits[0].predicted[:1],
        used=good.fits[0].used[:1],
    )
    page = Page(
        render(
            robot("five_bar"),
            replace(
                good,
                estimate=exact,
                estimates={"a": exact, "b": exact},
                enclosures={},
                fits=(short,),
            ),
        )
    )
    assert page.tables[0][1][1][0].partition("combination: ")[0] == single.parameters[0]


# -- that it needs nothing and lets nothing out


@pytest.mark.parametrize("name", KINDS)
def test_the_file_is_light_and_refers_to_nothing_outside(name: str) -> None:
    html = render(robot(name), result(name))
    page = Page(html)
    assert len(html) < 700_000
    for element, attributes in page.elements:
        assert element not in ("link", "img", "iframe", "object", "embed", "base"), element
        assert not {"src", "srcset", "action", "data"} & set(attributes)
        assert (attributes.get("href") or "#").startswith("#")
        assert not any(key.startswith("on") for key in attributes)
    style = html[html.index("<style>") : html.index("</style>")]
    assert "url(" not in style
    assert "@import" not in style
    policy = next(
        a["content"] for _, a in page.elements if a.get("http-equiv") == "Content-Security-Policy"
    )
    assert str(policy).startswith("default-src 'none'")


def test_hostile_names_stay_text() -> None:
    html = render(robot("five_bar"), hostile())
    page = Page(html)
    assert sum(tag == "script" for tag, _ in page.elements) == 2
    assert not any(tag == "img" for tag, _ in page.elements)
    assert "window.hacked" in page.text
    data = json.loads(page.scripts[0])
    assert data["correlation"]["names"][0] == f"{HOSTILE}.m"
    assert "hacked" not in page.scripts[1]


def test_the_same_result_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a.html", "b.html"):
        write_report(robot("five_bar"), result("five_bar"), tmp_path / name)
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()


def test_a_result_of_another_robot_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="the result is of 'five_bar', the model of 'serial6'"):
        write_report(robot("serial6"), result("five_bar"), tmp_path / "a.html")
    assert not list(tmp_path.iterdir())


def test_a_missing_folder_is_told(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="cannot write"):
        write_report(robot("five_bar"), result("five_bar"), tmp_path / "nowhere" / "a.html")


# -- its parts


@pytest.mark.parametrize("name", [name for name, _ in bundled_robots()])
def test_links_and_plates_of_the_picture_are_rigid(name: str) -> None:
    model = robot(name)
    q = random_motion(model, 20, seed=3).q
    drawn = skeleton(model.kinematics, model.load_body, q)
    assert drawn.links
    origins = model.kinematics.body_poses(q)[1]
    bodies = [body.name for body in model.mechanism.bodies]
    motors = drawn.points[:, [k for k, kind in drawn.dots if kind == "motor"]]
    for joint in model.mechanism.joints:
        if joint.actuated and joint.kind == "revolute":  # it turns about its child's origin
            gap = np.linalg.norm(motors - origins[:, [bodies.index(joint.child)]], axis=2).max(
                axis=0
            )
            assert gap.min() < 1e-6 * drawn.size, joint.name
    assert 0 < motors.shape[1] <= len(model.actuated)
    rigid = [(a, b) for a, b, kind in drawn.links if kind in ("body", "rod")]
    rigid += [pair for ring, _ in drawn.plates for pair in zip(ring, (*ring[1:], ring[0]))]
    for a, b in rigid:
        length = np.linalg.norm(drawn.points[:, a] - drawn.points[:, b], axis=1)
        assert np.ptp(length) < 1e-8 * drawn.size
        assert length[0] > 1e-6 * drawn.size
    reached = {k for a, b, _ in drawn.links for k in (a, b)} | {
        k for ring, _ in drawn.plates for k in ring
    }
    assert {k for k, _ in drawn.dots} <= reached | {drawn.tool}


def test_a_wrist_whose_axes_meet_in_one_point_is_drawn_to_its_centres_of_mass() -> None:
    folder = Path(__file__).parents[2] / "examples" / "robots"
    model = Model(load_robot(folder / "spherical_wrist.toml"))
    q = random_motion(model, 20, seed=3).q
    drawn = skeleton(model.kinematics, model.load_body, q)
    lengths = [np.linalg.norm(drawn.points[0, a] - drawn.points[0, b]) for a, b, _ in drawn.links]
    of_file = []
    for body in model.mechanism.bodies:
        moments = [body.values.get(name, 0.0) for name in ("mx", "my", "mz")]
        if body.values.get("m"):
            of_file.append(np.linalg.norm(moments) / body.values["m"])
    np.testing.assert_allclose(sorted(lengths), sorted(of_file), rtol=1e-12)


def test_the_picture_of_a_five_bar_is_its_geometry() -> None:
    model = robot("five_bar")
    move = motion(model, 3, samples=20)
    drawn = skeleton(model.kinematics, model.load_body, move.q)
    tool = move.q[:, [move.column("tool.x"), move.column("tool.y")]]
    np.testing.assert_allclose(drawn.points[:, drawn.tool, :2], tool, atol=1e-12)
    lengths = sorted(
        float(np.linalg.norm(drawn.points[0, a] - drawn.points[0, b])) for a, b, _ in drawn.links
    )
    np.testing.assert_allclose(lengths, [0.2, 0.25, 0.25, 0.35, 0.35], atol=1e-9)


def test_the_moving_picture_holds_the_poses_of_the_log() -> None:
    model, fit = robot("palida"), result("palida").fits[0]
    scene = robot_scene(model, fit)
    packed = np.frombuffer(base64.b64decode(scene["points"]), "<i2").reshape(
        scene["frames"], scene["count"], 3
    )
    assert scene["frames"] * scene["step"] == pytest.approx(fit.time[-1], rel=0.1)
    middle = scene["frames"] // 3
    sample = int(np.abs(fit.time - middle * scene["step"]).argmin())
    rotation, origin = model.kinematics.body_poses(fit.q[[0, sample]])
    body = [b.name for b in model.mechanism.bodies].index("platform")
    tool = packed[[0, middle], scene["tool"]].astype(float)
    scale = np.linalg.norm(tool[1] - tool[0]) / np.linalg.norm(
        origin[1, body] - origin[0, body]
    )  # [steps/m]
    assert (
        np.abs((tool[1] - tool[0]) / scale - (origin[1, body] - origin[0, body])).max() < 10 / scale
    )
    assert np.abs(rotation[1, body] - rotation[1, body].T).max() > 0.02
    for k, tip in enumerate(scene["triad"]):
        axis = packed[middle, tip] - tool[1]
        np.testing.assert_allclose(axis / np.linalg.norm(axis), rotation[1, body][:, k], atol=3e-3)


def test_attributes_and_text_are_escaped() -> None:
    assert str(tag("a", "<b>", x_y='"&')) == '<a x-y="&#34;&amp;">&lt;b&gt;</a>'


def test_frames_follow_the_log_and_bridge_what_it_lacks() -> None:
    model = robot("five_bar")
    move = motion(model, 4, samples=2000)
    keep = (np.arange(2000) % 200 > 60) | (np.arange(2000) < 2)
    times, q = frames(model, move.time[keep], move.q[keep])
    assert len(times) <= 160
    assert times[0] == 0
    truth = np.stack(
        [np.interp(times, move.time, move.q[:, i]) for i in range(move.q.shape[1])], axis=1
    )
    assert np.abs(q - truth).max() < 0.03 * np.ptp(move.q, axis=0).max()


@given(st.floats(-1e7, 1e7), st.floats(1e-9, 1e6))
def test_a_value_and_its_deviation_read_back(value: float, std: float) -> None:
    first, second = with_std(value, std)
    assert value_of(second) == pytest.approx(std, rel=0.06, abs=6e-10 * max(abs(value), std))
    assert value_of(first) == pytest.approx(value, abs=0.06 * std + 6e-10 * abs(value))


@given(st.floats(allow_nan=False, allow_infinity=False, min_value=-1e200, max_value=1e200))
def test_a_number_reads_back(value: float) -> None:
    assert value_of(number(value)) == pytest.approx(value, rel=6e-4, abs=1e-300)
    assert value_of(percent(value).removesuffix("\u00a0%")) == pytest.approx(
        100 * value, rel=0.06, abs=1e-300
    )


def test_numbers_and_units_are_written_as_people_do() -> None:
    assert [number(x) for x in (0.0, -0.25, 1234567.0, np.inf, np.nan)] == [
        "0",
        "−0.2500",
        "1.235·10⁶",
        "∞",
        "–",
    ]
    assert with_std(-0.001, 3.0) == ("0.0", "3.0")
    assert [unit(u) for u in ("kg m2", "N s/m", "1", "m/s2")] == ["kg m²", "N s/m", "", "m/s²"]


def test_values_of_a_low_axis_do_not_overlap() -> None:
    low = Plot(left=46, top=148, width=366, height=44, x=(0.0, 1.0), y=(-0.046, 0.046))
    axis = str(low.y_axis(3))
    assert axis.count("<text") == 3
    assert "0.04<" in axis
    assert "0.02<" not in axis
    high = replace(low, height=112)
    assert str(high.y_axis(3)).count("<text") == 5


def test_a_gap_interrupts_a_curve() -> None:
    plot = Plot(left=0, top=0, width=100, height=50, x=(0.0, 4.0), y=(0.0, 1.0))
    drawn = plot.curve(np.arange(5.0), np.array([0.0, 1.0, np.nan, 1.0, 0.0]), "line")
    assert re.findall("[ML]", drawn.split('d="')[1].split('"')[0]) == ["M", "L", "M", "L"]


def test_a_packed_curve_unpacks_to_its_points() -> None:
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(0, 7, 300))
    y = np.cumsum(rng.standard_normal(300))
    segment = (x > 3).astype(int)
    plot = Plot(left=0, top=0, width=1, height=1, x=(0, 7), y=(float(y.min()), float(y.max())))
    d = re.search(r'd="([^"]+)"', plot.packed(x, y, segment, "c"))
    assert d is not None
    steps = [(int(a), int(b)) for a, b in re.findall(r"(-?\d+)[ ]?(-?\d+)", d[1])]
    found = np.cumsum(steps, axis=0)
    np.testing.assert_allclose(found[:, 0] * 7 / PACKED_WIDTH, x, atol=0.6 * 7 / PACKED_WIDTH)
    np.testing.assert_allclose(
        y.max() - found[:, 1] * np.ptp(y) / PACKED_HEIGHT, y, atol=0.6 * np.ptp(y) / PACKED_HEIGHT
    )
    assert d[1].count("m") == 2
    assert len(d[1]) < 8 * 300


def test_thinning_hides_no_spike() -> None:
    rng = np.random.default_rng(0)
    values = rng.standard_normal(10_000)
    values[[1234, 7777]] = 9.0, -9.0
    kept = extremes(values, 500)
    assert {0, 1234, 7777, 9999} <= set(kept.tolist())
    assert len(kept) <= 502
    assert (np.diff(kept) > 0).all()


def test_the_amplitude_density_of_noise_with_gaps_adds_up_to_its_variance() -> None:
    rng = np.random.default_rng(0)
    time = np.arange(20_000) * 1e-3
    keep = (np.arange(20_000) % 700) > 250
    noise = 0.4 * rng.standard_normal(20_000)
    frequency, density = amplitude_density(time[keep], noise[keep])
    # White noise of variance 0.16 has 0.16 over the 500 Hz below the Nyquist frequency.
    np.testing.assert_allclose(density[frequency > 10], np.sqrt(0.16 / 500), rtol=0.25)
    assert np.mean(density[frequency > 10] ** 2) == pytest.approx(0.16 / 500, rel=0.03)
    tone = np.sin(2 * np.pi * 35.0 * time)
    frequency, density = amplitude_density(time[keep], (noise + tone)[keep])
    assert frequency[density.argmax()] == pytest.approx(35.0, rel=0.12)


# -- verdict, diagnosis and processing, as plain tables


def judged(**fields: Any) -> str:
    return render(robot("five_bar"), replace(result("five_bar"), **fields))


def test_errors_come_before_warnings_and_nothing_is_green_beside_them() -> None:
    page = Page(
        judged(
            notices=(
                Notice(rule="fit error", level="warning", text="12 % is left"),
                Notice(rule="negative value", level="error", text="fs is <b>negative</b>"),
            )
        )
    )
    assert ("div", "headline error") in [(tag, a.get("class")) for tag, a in page.elements]
    assert page.text.index("fs is <b>negative</b>") < page.text.index("12\u00a0% is left")
    assert not [a for tag, a in page.elements if tag == "article" and "good" in str(a.get("class"))]


def test_a_result_without_warnings_is_ok() -> None:
    page = Page(judged(notices=()))
    assert ("div", "headline ok") in [(tag, a.get("class")) for tag, a in page.elements]
    assert "All checks passed without a warning." in page.text
    assert [a for tag, a in page.elements if tag == "article" and "good" in str(a.get("class"))]


def test_mistakes_are_told_with_size_and_cure() -> None:
    fault = NamedFault(
        name="effort delay",
        place="left.motor",
        size=(1.9e-3,),
        std=(1e-4,),
        unit="s",
        text="left.motor: effort lags by 1.90 +- 0.10 ms",
        advice='put offset = "-1.9 ms"',
        before=0.061,
        after=0.023,
        equivalents=("a clock",),
    )
    limits = (
        Limit(name="tilt", place="base", unit="rad", size=np.inf),
        Limit(name="effort delay", place="left.motor", unit="s", size=2.5e-4),
    )
    page = Page(
        judged(
            diagnosis=Diagnosis(
                robot="five_bar",
                faults=(fault,),
                limits=limits,
                notices=(Notice(rule="diagnosis", level="info", text="one log only"),),
            )
        )
    )
    rows = [
        row
        for table in page.tables
        for _, row in table
        if row and row[0] in ("effort delay", "tilt")
    ]
    assert rows[0][2:4] == ["6.1\u00a0%", "2.3\u00a0%"]
    assert rows[0][1].startswith("left.motor: effort lags by 1.90 +- 0.10 ms")
    assert "or a clock: these logs cannot tell which" in rows[0][1]
    assert rows[0][-1] == 'put offset = "-1.9 ms"'
    assert [row[2] for row in rows[1:]] == ["not detectable", "2.5·10⁻⁴"]
    assert "one log only" in page.text


def test_the_curves_of_cutoffs_and_windows_mark_the_chosen_ones() -> None:
    tried = tuple(
        Candidate(cutoff=f, decimation=1, window=0.0, errors=(e, e))
        for f, e in ((3.0, 0.3), (10.0, 0.08), (30.0, 0.09))
    )
    wide = tuple(replace(tried[0], window=w) for w in (0.0, 0.002, 0.004))
    choice = ProcessingChoice(
        processing=Processing(cutoff=10.0, window=0.002),
        rows=("left.motor", "right.motor"),
        cutoffs=tried,
        windows=wide,
    )
    page = Page(render(robot("five_bar"), replace(result("five_bar"), choice=choice)))
    dots = [
        a for tag, a in page.elements if tag == "circle" and a.get("class") in ("chosen", "kept")
    ][-6:]
    assert [a["class"] for a in dots] == [
        "kept",
        "chosen",
        "kept",
    ] * 2  # cut-offs rising, windows rising
    heights = [float(str(a["cy"])) for a in dots]
    assert heights[1] > heights[2] > heights[0]  # downwards: the smallest error is lowest


def test_shares_of_samples_stand_beside_the_residual() -> None:
    good = result("five_bar")
    few = replace(good.estimate, n_valid=np.array([300, 400]), samples=400)
    page = Page(render(robot("five_bar"), replace(good, estimate=few)))
    rows = {
        row[0]: row
        for table in page.tables
        for _, row in table
        if row and row[0] in ("left.motor", "right.motor")
    }
    assert [rows[name][3] for name in ("left.motor", "right.motor")] == [
        "75.0\u00a0%",
        "100\u00a0%",
    ]


def test_information_over_noise_stands_beside_each_parameter_and_below_three_it_is_not_observed() -> (
    None
):
    base = result("five_bar")
    known = np.full(len(base.estimate), 420.0)
    known[1] = 1.2
    page = render(
        robot("five_bar"), replace(base, estimate=replace(base.estimate, information=known))
    )
    assert "signal / noise" in page
    assert page.count("not observed: position noise alone") == 1
    assert page.count(">420<") == len(known) - 1
    assert "signal / noise" not in render(robot("five_bar"), base)


@pytest.mark.parametrize(
    ("low", "high", "marks"),
    [
        (0.3, 5.2, [1, 2, 3, 4, 5]),
        (0.0, 10.0, [0, 2, 4, 6, 8, 10]),
        (-0.13, 0.21, [-0.1, -0.05, 0, 0.05, 0.1, 0.15, 0.2]),
        (2.0, 2.0, [2]),
    ],
)
def test_marks_of_an_axis_are_round_numbers_inside_it(
    low: float, high: float, marks: list[float]
) -> None:
    assert ticks(low, high) == pytest.approx(marks)
