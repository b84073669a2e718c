"""Looking into a log nobody described: what is found, what is guessed and marked so, and what is
never used unasked.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from bags import write_bag
from test_doors import EFFORT, JOINTS, POSITION, TIME, as_twincat, is_the_run

from gough.core.errors import InvalidRecording
from gough.logs.readers import read_recording
from gough.logs.survey import Motor, survey

MOTORS = [Motor(name=name, unit="rad", limits=(-1.8, 1.8)) for name in JOINTS]


def described(tmp_path: Path, text: str) -> Path:
    (tmp_path / "run.toml").write_text(text)
    return tmp_path / "run.toml"


def table(tmp_path: Path, header: str, *columns: np.ndarray) -> Path:
    lines = [",".join(f"{x:.12g}" for x in row) for row in zip(*columns)]
    (tmp_path / "run.csv").write_text("\n".join([header, *lines]) + "\n")
    return tmp_path / "run.csv"


def test_a_bag_of_the_robot_needs_no_line_by_hand(tmp_path) -> None:
    path = write_bag(
        tmp_path, TIME, JOINTS[::-1], POSITION[:, ::-1], EFFORT[:, ::-1], slow=20 + TIME
    )
    found = survey(path, MOTORS)
    assert [column for column, _ in found.proposal["position"]] == [
        f"/joint_states/{j}.position" for j in JOINTS
    ]
    assert {why for _, why in found.proposal["effort"]} == {"by its name"}
    assert found.column("/joint_states/left.motor.effort").clock == "/joint_states/header.stamp"
    assert found.column("/joint_states/left.motor.effort").rate == pytest.approx(100, rel=1e-6)
    assert found.column("/gear/temperature/data").rate == pytest.approx(10, rel=1e-3)
    assert found.column("/gear/temperature/data").kind == "extra"
    assert found.column("/joint_states/left.motor.position").guessed
    text = found.description()
    assert 'units = ["rad", "rad"]  # a guess' in text
    is_the_run(read_recording(path, described(tmp_path, text)))


def test_an_oscilloscope_of_a_controller_is_read_by_its_numbers(tmp_path) -> None:
    as_twincat(tmp_path)
    path = next(tmp_path.iterdir())
    found = survey(path, MOTORS)
    assert found.decimal == ","
    assert found.column("Axis1.Pos").clock == "Axis1.Pos time"
    assert found.column("Axis1.Pos time").unit == "ms"
    assert [column for column, _ in found.proposal["position"]] == ["Axis1.Pos", "Axis2.Pos"]
    assert [column for column, _ in found.proposal["effort"]] == ["Axis1.Trq", "Axis2.Trq"]
    is_the_run(read_recording(path, described(tmp_path, found.description())))


def test_the_motion_may_object_to_numbers_but_not_overrule_them(tmp_path) -> None:
    time = np.arange(2000) / 100.0
    left = np.sin(3 * time) + 0.4 * np.sin(7.1 * time)
    right = 0.8 * np.cos(2 * time) + 0.4 * np.sin(5.3 * time)
    crossed = np.gradient(right), np.gradient(left)
    path = table(tmp_path, "t,q1,q2,tau1,tau2", time, left, right, *crossed)
    found = survey(path, MOTORS)
    assert found.proposal["effort"] == (("tau1", "by its number"), ("tau2", "by its number"))
    assert "BUT the motion of left.motor explains" in found.summary()
    assert set(found.objections) == {"effort"}
    with pytest.raises(InvalidRecording, match=r"unit '\?' is not known"):
        read_recording(path, described(tmp_path, found.description()))


@pytest.mark.parametrize(
    ("position", "effort"),
    [
        ("Achsen.Achse{}.fIstposition [°]", "Achsen.Achse{}.nIstmoment [‰]"),
        ("MAIN.fbAxis{}.fActPos [deg]", "MAIN.fbAxis{}.iActTorque [%]"),
        ("Achse{}.Istwinkel [°]", "Achse{}.Auslastung [%]"),
    ],
)
def test_names_of_german_controllers_and_prefixes_of_types_are_understood(
    position: str, effort: str, tmp_path
) -> None:
    names = [pattern.format(k) for pattern in (position, effort) for k in (1, 2)]
    path = table(tmp_path, ",".join(["Time [s]", *names]), TIME, *POSITION.T, *(100 * EFFORT.T))
    found = survey(path, MOTORS)
    assert [column for column, _ in found.proposal["position"]] == names[:2]
    assert [column for column, _ in found.proposal["current"]] == names[2:]


def test_all_joints_get_the_same_kind_of_signal(tmp_path) -> None:
    """A 7-axis log whose efforts look alike."""
    rng = np.random.default_rng(0)
    names = [
        f"{word}{k}" for word in ("Torque", "TorqueSm", "Velocity", "Position") for k in range(1, 8)
    ]
    common = np.sin(3 * TIME)[:, None] + 0.01 * rng.standard_normal((len(TIME), 28))
    path = table(tmp_path, ",".join(["Time", *names]), TIME, *common.T)
    joints = [Motor(name=f"joint_{k}", unit="rad") for k in range(1, 8)]
    found = survey(path, joints)
    for kind, word in (("position", "Position"), ("effort", "Torque"), ("velocity", "Velocity")):
        columns = [column for column, _ in found.proposal[kind]]
        assert columns == [f"{word}{k}" for k in range(1, 8)]


def test_efforts_beyond_the_limit_of_the_motor_are_questioned(tmp_path) -> None:
    path = table(tmp_path, "t,q1,q2,tau1,tau2", TIME, *POSITION.T, *EFFORT.T)
    weak = [motor._replace(effort_limit=1.0) for motor in MOTORS]
    text = survey(path, weak).description()
    assert "it reaches 5, 5.0 times the limit of the motor (1)" in text
    assert 'units = ["?", "?"]' in text


def test_efforts_follow_the_letters_that_limits_give_to_the_joints(tmp_path) -> None:
    far = Motor(name="lift", unit="m", limits=(0.0, 2.0))
    turn = Motor(name="turn", unit="rad", limits=(-1.0, 1.0))
    signals = (40 * np.sin(TIME), 900 + 800 * np.sin(TIME), np.cos(TIME), np.sin(2 * TIME))
    path = table(tmp_path, "t,encX,encY,torqueX,torqueY", 1000 * TIME, *signals)
    found = survey(path, [far, turn])
    assert [column for column, _ in found.proposal["position"]] == ["encY", "encX"]
    assert [column for column, _ in found.proposal["effort"]] == ["torqueY", "torqueX"]


def test_limits_tell_columns_apart_and_give_the_unit(tmp_path) -> None:
    far = Motor(name="lift", unit="m", limits=(0.0, 2.0))
    turn = Motor(name="turn", unit="rad", limits=(-1.0, 1.0))
    path = table(tmp_path, "t,encX,encY", 1000 * TIME, 40 * np.sin(TIME), 900 + 800 * np.sin(TIME))
    found = survey(path, [far, turn])
    assert [column for column, _ in found.proposal["position"]] == ["encY", "encX"]
    assert [found.column(c).unit for c, _ in found.proposal["position"]] == ["mm", "deg"]
    log = read_recording(path, described(tmp_path, found.description()))
    assert np.allclose(
        log.position, np.column_stack([0.9 + 0.8 * np.sin(TIME), np.radians(40 * np.sin(TIME))])
    )


def test_without_a_robot_the_joints_have_names_to_be_replaced(tmp_path) -> None:
    found = survey(
        table(
            tmp_path,
            "t [s],q1 [deg],q2 [deg],i1 [A],i2 [A]",
            TIME,
            *np.degrees(POSITION.T),
            *EFFORT.T,
        )
    )
    assert found.joints == ("motor1", "motor2")
    assert not found.column("q1 [deg]").guessed
    assert "a guess" not in found.description().partition("\n")[2]
    log = read_recording(tmp_path / "run.csv", described(tmp_path, found.description()))
    assert np.allclose(log.position, POSITION)
    assert np.allclose(log.current, EFFORT)


def test_a_log_that_describes_itself_is_told_so(tmp_path) -> None:
    header = "time [s],left.motor.position [rad],right.motor.position [rad]"
    found = survey(table(tmp_path, header, TIME, *POSITION.T), MOTORS)
    assert found.plain
    assert found.summary().endswith("can be read without a description.")
    assert [column for column, _ in found.proposal["position"]] == header.split(",")[1:]


def test_what_is_unknown_is_refused_until_somebody_says_it(tmp_path) -> None:
    path = table(tmp_path, "t,q1,q2,drv1,drv2", TIME, *(1e5 * POSITION.T), *EFFORT.T)
    found = survey(path, MOTORS)
    with pytest.raises(InvalidRecording, match=r"unit '\?' is not known"):
        read_recording(path, described(tmp_path, found.description()))
    assert "drv1" in found.summary()
    assert "guess" in found.summary()
    no_clock = survey(table(tmp_path, "a,b", *POSITION.T), MOTORS)
    with pytest.raises(InvalidRecording, match="no column '\\?'"):
        read_recording(path, described(tmp_path, no_clock.description()))


def test_a_log_without_room_for_the_robot_gets_no_proposal(tmp_path) -> None:
    found = survey(table(tmp_path, "t,q1", TIME, POSITION[:, 0]), MOTORS)
    assert not found.proposal
    assert found.to_dict()["proposal"] == {}
    with pytest.raises(InvalidRecording, match="is a folder"):
        survey(tmp_path)


def test_thousands_are_seen_and_never_taken_for_decimals(tmp_path) -> None:
    def german(x: float) -> str:
        return f"{x:,.4f}".translate(str.maketrans(",.", ".,"))

    counts = np.round(POSITION * 1e6)
    rows = [";".join(map(german, row)) for row in np.column_stack([1e3 * TIME, counts, EFFORT])]
    path = tmp_path / "run.csv"
    path.write_text("\n".join(["Zeit [ms];q1;q2;tau1 [Nm];tau2 [Nm]", *rows]) + "\n")
    text = survey(path, MOTORS).description()
    assert 'decimal = ","' in text
    assert 'thousands = "."' in text
    assert "counts of an encoder" in text
    ready = text.replace('units = ["?", "?"]', 'units = ["rad", "rad"]\nscale = 1e-6')
    is_the_run(read_recording(path, described(tmp_path, ready)), 1e-4)
    with pytest.raises(
        InvalidRecording, match=r"the point separates thousands, say decimal = \",\" and thousands"
    ):
        read_recording(path, described(tmp_path, ready.replace('thousands = "."', "")))


def test_columns_of_one_name_are_numbered(tmp_path) -> None:
    path = table(tmp_path, "time,pos,pos,torque,torque", TIME, *POSITION.T, *EFFORT.T)
    text = survey(path, MOTORS).description()
    assert 'columns = ["pos[1]", "pos[2]"]' in text
    is_the_run(read_recording(path, described(tmp_path, text)))


@pytest.mark.parametrize("name", ["t_s", "1", "Zeit_ms", "x"])
def test_a_clock_is_told_by_its_even_steps_or_a_word_before_its_unit(tmp_path, name: str) -> None:
    path = table(
        tmp_path,
        f"{name},q1,q2,tau1,tau2",
        TIME * (1e3 if name == "Zeit_ms" else 1),
        *POSITION.T,
        *EFFORT.T,
    )
    is_the_run(read_recording(path, described(tmp_path, survey(path, MOTORS).description())))


def test_quoted_cells_may_hold_the_delimiter(tmp_path) -> None:
    rows = [
        f'"{1e3 * t:,.3f}",{a!r},{b!r},{c!r},{d!r}'
        for t, (a, b), (c, d) in zip(TIME.tolist(), POSITION.tolist(), EFFORT.tolist())
    ]
    path = tmp_path / "run.csv"
    path.write_text("\n".join(["Time (ms),q1 (rad),q2 (rad),tau1 (Nm),tau2 (Nm)", *rows]) + "\n")
    found = survey(path, MOTORS)
    is_the_run(read_recording(path, described(tmp_path, found.description())))


def test_a_column_of_no_values_is_proposed_for_nothing(tmp_path) -> None:
    path = write_bag(tmp_path, TIME, JOINTS, POSITION, np.full_like(EFFORT, np.nan))
    assert "effort" not in survey(path, MOTORS).proposal


@pytest.mark.parametrize("late", [0.0, 0.1])
def test_signals_with_clocks_of_their_own_are_cut_only_where_they_do_not_overlap(
    late: float, tmp_path
) -> None:
    text = """format = 1
joints = ["left.motor", "right.motor"]
[time]
columns = ["t"]
units = ["s"]
[position]
columns = ["q1", "q2"]
units = ["rad", "rad"]
[effort]
columns = ["m1", "m2"]
units = ["N m", "N m"]
[effort.time]
columns = ["u"]
units = ["s"]
"""
    path = table(tmp_path, "t,q1,q2,u,m1,m2", TIME, *POSITION.T, TIME + late, *EFFORT.T)
    rules = [notice.rule for notice in read_recording(path, described(tmp_path, text)).notices]
    assert ("overlap" in rules) == (late > 0)


def test_an_index_without_a_name_is_no_clock(tmp_path) -> None:
    """As pandas writes it: the rows are counted before a column of time."""
    path = table(
        tmp_path, ",timestamp,q1,q2,tau1,tau2", np.arange(len(TIME)), TIME, *POSITION.T, *EFFORT.T
    )
    found = survey(path, MOTORS)
    assert found.column("q1").clock == "timestamp"
    is_the_run(read_recording(path, described(tmp_path, found.description())))


@pytest.mark.parametrize(("scale", "unit"), [(1.0, "rad/s"), (180 / np.pi, "deg/s"), (7.0, "?")])
def test_the_unit_of_velocities_is_that_of_the_derivative(tmp_path, scale, unit: str) -> None:
    velocity = scale * np.gradient(POSITION, TIME, axis=0)
    path = table(tmp_path, "t,q1,q2,qd1,qd2,tau1,tau2", TIME, *POSITION.T, *velocity.T, *EFFORT.T)
    found = survey(path, MOTORS)
    assert [found.column(name).unit for name in ("qd1", "qd2")] == [unit, unit]
    assert ("velocity" in found.objections) == (unit == "?")


def test_a_rate_that_the_log_states_is_proposed(tmp_path) -> None:
    signals = np.vstack([POSITION.T, EFFORT.T])
    np.savez(tmp_path / "run.npz", X=signals, Ts=np.diff(TIME)[0])
    text = survey(tmp_path / "run.npz", MOTORS).description()
    assert "rate = \"100 Hz\"  # a guess, from 'Ts'" in text
    is_the_run(read_recording(tmp_path / "run.npz", described(tmp_path, text)))


def test_a_log_without_positions_is_told_so(tmp_path) -> None:
    found = survey(table(tmp_path, "t,vel1,vel2,trq1,trq2", TIME, *POSITION.T, *EFFORT.T), MOTORS)
    assert "no columns look like the positions" in found.summary()
    assert 'columns = ["t"]' in found.description()


def test_words_in_brackets_and_clocks_before_units_are_understood(tmp_path) -> None:
    """As TwinCAT's scope exports inputs of drives: a time before each column, torques in 0.1 %."""
    names = ["A1.Pos", "A2.Pos", "A1.In3 (ActTorque)", "A2.In3 (ActTorque)"]
    units = ["deg", "deg", "0.1%", "0.1%"]
    columns = [*POSITION.T, *np.round(100 * EFFORT).T]
    times = [1e3 * TIME, 1e3 * TIME + 0.5, 1e3 * TIME, 1e3 * TIME]
    lines = []
    for key, cells in (("Name", names), ("Unit", units)):
        lines.append("\t".join(f"{key}\t{cell}" for cell in cells))
    for k in range(len(TIME)):
        cells = [f"{time[k]:.6f}\t{column[k]:.9g}" for time, column in zip(times, columns)]
        lines.append("\t".join(cells))
    path = tmp_path / "scope.csv"
    path.write_text("\n".join(lines) + "\n")
    found = survey(path, MOTORS)
    assert [column for column, _ in found.proposal["current"]] == [
        f"{name} [0.1%]" for name in names[2:]
    ]
    assert found.column("A2.Pos [deg]").clock == "A2.Pos time"
    assert list(found.objections["position"]) == [1]
    assert "BUT its time 'A2.Pos time' differs" in found.summary()


@pytest.mark.parametrize("unit", ["Grad", "Einheit 7"])
def test_a_line_of_units_may_hold_one_that_is_not_known(unit: str, tmp_path) -> None:
    """The names are those of the line above it, and a unit that is not known stays a guess."""
    header = f"Zeit,Istposition 1,Istposition 2,Istmoment 1,Istmoment 2\nms,{unit},{unit},Nm,Nm"
    path = table(tmp_path, header, 1e3 * TIME, *POSITION.T, *EFFORT.T)
    found = survey(path, MOTORS)
    names = [f"Istposition {k} [{unit}]" for k in (1, 2)]
    assert [column for column, _ in found.proposal["position"]] == names
    assert found.column("Zeit [ms]").unit == "ms"
    assert ('"]  # a guess' in found.description()) == (unit != "Grad")
