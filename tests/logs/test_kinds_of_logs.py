"""What `gough log` writes about the logs that controllers and programs write is read as it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from bags import write_bag
from pyarrow import parquet
from scipy.io import savemat

from gough.core.errors import GoughError
from gough.logs.description import parse_description
from gough.logs.readers import read_recording
from gough.logs.survey import Motor, survey

TIME = np.arange(400) / 250.0
PHASE = np.arange(3)
POSITION = 0.6 * np.sin((2 + PHASE) * TIME[:, None] + PHASE)
VELOCITY = 0.6 * (2 + PHASE) * np.cos((2 + PHASE) * TIME[:, None] + PHASE)
EFFORT = 4 * np.cos((2 + PHASE) * TIME[:, None]) * (1 + PHASE) + np.sign(VELOCITY)
DEGREES = np.degrees(POSITION)
MOTORS = [Motor(name=f"joint_{k}", unit="rad", limits=(-1.5, 1.5)) for k in (1, 2, 3)]
STAMPS = 1.7e9 + TIME


def text(
    path: Path, names: Sequence[str], columns: Sequence, *, sep: str = ",", comma: bool = False
) -> None:
    """Write a table of numbers or texts, with decimal commas if asked."""
    lines = [sep.join(names)] if names else []
    for row in zip(*columns):
        cells = [cell if isinstance(cell, str) else f"{cell:.10g}" for cell in row]
        line = sep.join(cells)
        lines.append(line.replace(".", ",") if comma else line)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def numbered(pattern: str, first: int = 1) -> list[str]:
    return [pattern.format(k) for k in range(first, first + 3)]


def plain_csv(folder: Path) -> Path:
    text(
        folder / "a.csv",
        ["t", *numbered("q{}"), *numbered("tau{}")],
        [TIME, *POSITION.T, *EFFORT.T],
    )
    return folder / "a.csv"


def semicolons_and_decimal_commas(folder: Path) -> Path:
    names = ["Zeit [s]", *numbered("Lage{} [°]"), *numbered("Drehmoment{} [Nm]")]
    text(folder / "a.csv", names, [TIME, *DEGREES.T, *EFFORT.T], sep=";", comma=True)
    return folder / "a.csv"


def milliseconds_and_degrees(folder: Path) -> Path:
    names = [
        "time_ms",
        *numbered("pos_{}_deg"),
        *numbered("speed_{} [rpm]"),
        *numbered("torque_{}"),
    ]
    rpm = VELOCITY * 30 / np.pi
    text(folder / "a.csv", names, [1e3 * TIME, *DEGREES.T, *rpm.T, *EFFORT.T])
    return folder / "a.csv"


def microseconds(folder: Path) -> Path:
    names = ["timestamp", *numbered("position{}"), *numbered("effort{}")]
    text(folder / "a.csv", names, [1e6 * TIME, *POSITION.T, *EFFORT.T])
    return folder / "a.csv"


def nanoseconds(folder: Path) -> Path:
    names = ["stamp [ns]", *numbered("q_{}"), *numbered("tau_{}")]
    text(folder / "a.csv", names, [[f"{1e9 * t:.0f}" for t in TIME], *POSITION.T, *EFFORT.T])
    return folder / "a.csv"


def dates(folder: Path) -> Path:
    stamps = [
        str(np.datetime64("2024-03-01T10:00:00") + np.timedelta64(round(1e6 * t), "us"))
        for t in TIME
    ]
    stamps = [stamp.ljust(26, "0") if "." in stamp else stamp + ".000000" for stamp in stamps]
    text(
        folder / "a.csv",
        ["date", *numbered("q{}"), *numbered("torque{}")],
        [stamps, *POSITION.T, *EFFORT.T],
    )
    return folder / "a.csv"


def no_header(folder: Path) -> Path:
    text(folder / "a.txt", [], [TIME, *POSITION.T, *EFFORT.T], sep=" ")
    return folder / "a.txt"


def no_header_with_velocities(folder: Path) -> Path:
    text(folder / "a.dat", [], [TIME, *POSITION.T, *VELOCITY.T, *EFFORT.T], sep="\t")
    return folder / "a.dat"


def ur_rtde(folder: Path) -> Path:
    names = ["timestamp", *numbered("target_q_{}", 0), *numbered("actual_q_{}", 0)]
    names += [*numbered("actual_qd_{}", 0), *numbered("target_moment_{}", 0)]
    columns = [TIME, *(POSITION.T + 1e-3), *POSITION.T, *VELOCITY.T, *EFFORT.T]
    text(folder / "robot_data.csv", names, columns, sep=" ")
    return folder / "robot_data.csv"


def franka(folder: Path) -> Path:
    names = ["time", *numbered("q[{}]", 0), *numbered("q_d[{}]", 0), *numbered("dq[{}]", 0)]
    names += [*numbered("tau_J[{}]", 0), *numbered("tau_ext_hat_filtered[{}]", 0)]
    columns = [TIME, *POSITION.T, *(POSITION.T + 1e-3), *VELOCITY.T, *EFFORT.T, *(0.1 * EFFORT.T)]
    text(folder / "a.csv", names, columns)
    return folder / "a.csv"


def kuka(folder: Path) -> Path:
    names = ["Zeit [ms]", *numbered("$AXIS_ACT_A{} [deg]"), *numbered("$TORQUE_AXIS_ACT_A{} [Nm]")]
    text(folder / "trace.csv", names, [1e3 * TIME, *DEGREES.T, *EFFORT.T], sep=";")
    return folder / "trace.csv"


def abb(folder: Path) -> Path:
    names = [
        "Time (s)",
        *numbered("ROB_1 Joint {} angle (rad)"),
        *numbered("ROB_1 Joint {} torque (Nm)"),
    ]
    text(folder / "a.csv", names, [TIME, *POSITION.T, *EFFORT.T], sep="\t")
    return folder / "a.csv"


def twincat(folder: Path) -> Path:
    names = [*numbered("Axis {}.ActPos"), *numbered("Axis {}.ActTorque")]
    units = ["deg"] * 3 + ["Nm"] * 3
    columns = [*DEGREES.T, *EFFORT.T]
    lines = ["Name\tYT Scope Project", "File\tscope.svdx", ""]
    for key, cells in (("Name", names), ("Data-Type", ["REAL64"] * 6), ("Unit", units)):
        lines.append("\t".join(f"{key}\t{cell}" for cell in cells))
    for k, t in enumerate(TIME):
        lines.append(
            "\t".join(f"{1e3 * t:.6g}\t{column[k]:.10g}" for column in columns).replace(".", ",")
        )
    (folder / "scope.csv").write_text("\n".join(lines) + "\n")
    return folder / "scope.csv"


def codesys(folder: Path) -> Path:
    names = [
        "Time",
        *numbered("PLC_PRG.Axis{}.fActPosition"),
        *numbered("PLC_PRG.Axis{}.fActTorque"),
    ]
    units = ["ms", *["deg"] * 3, *["Nm"] * 3]
    text(
        folder / "trace.csv",
        names,
        [[units[k], *column] for k, column in enumerate([1e3 * TIME, *DEGREES.T, *EFFORT.T])],
        sep=";",
    )
    return folder / "trace.csv"


def ros_bag(folder: Path) -> Path:
    joints = [motor.name for motor in MOTORS]
    return write_bag(folder, TIME, joints[::-1], POSITION[:, ::-1], EFFORT[:, ::-1])


def matlab_variables(folder: Path) -> Path:
    savemat(folder / "a.mat", {"t": TIME, "q": POSITION, "tau": EFFORT, "gain": 3.0})
    return folder / "a.mat"


def matlab_structure(folder: Path) -> Path:
    savemat(folder / "a.mat", {"log": {"time": TIME, "position": POSITION, "torque": EFFORT}})
    return folder / "a.mat"


def matlab_signals_in_rows(folder: Path) -> Path:
    savemat(folder / "a.mat", {"t": TIME[None], "q": POSITION.T, "tau": EFFORT.T})
    return folder / "a.mat"


def matlab_one_matrix_of_rows(folder: Path) -> Path:
    savemat(folder / "a.mat", {"data": np.vstack([TIME, POSITION.T, EFFORT.T])})
    return folder / "a.mat"


def npz(folder: Path) -> Path:
    np.savez(folder / "a.npz", time=TIME, q=POSITION, tau=EFFORT)
    return folder / "a.npz"


def parquet_table(folder: Path) -> Path:
    columns = {"time": TIME}
    columns |= dict(zip(numbered("joint_{}/position"), POSITION.T))
    columns |= dict(zip(numbered("joint_{}/effort"), EFFORT.T))
    parquet.write_table(pa.table(columns), folder / "a.parquet")
    return folder / "a.parquet"


def hdf5(folder: Path) -> Path:
    with h5py.File(folder / "a.h5", "w") as file:
        file["run/t"] = TIME
        file["run/joint_positions"] = POSITION
        file["run/joint_torques"] = EFFORT
    return folder / "a.h5"


def plotjuggler(folder: Path) -> Path:
    columns = {"__time": STAMPS}
    columns |= dict(zip(numbered("/joint_states/joint_{}/position"), POSITION.T))
    columns |= dict(zip(numbered("/joint_states/joint_{}/velocity"), VELOCITY.T))
    columns |= dict(zip(numbered("/joint_states/joint_{}/effort"), EFFORT.T))
    pd.DataFrame(columns).to_csv(folder / "a.csv", index=False)
    return folder / "a.csv"


def smoothed_torques_beside(folder: Path) -> Path:
    names = ["Time", *numbered("Position{}"), *numbered("Velocity{}"), *numbered("TorqueSm{}")]
    names += numbered("Torque{}")
    smoothed = 0.9 * np.roll(EFFORT, 3, axis=0)
    text(folder / "a.csv", names, [TIME, *POSITION.T, *VELOCITY.T, *smoothed.T, *EFFORT.T])
    return folder / "a.csv"


def ros_topic_echo(folder: Path) -> Path:
    """The header begins with a comment sign, and there are columns of text."""
    names = ["%time", "field.header.stamp", "field.header.frame_id", *numbered("field.name{}", 0)]
    names += [*numbered("field.position{}", 0), *numbered("field.effort{}", 0)]
    late = 0.0015 * np.random.default_rng(1).random(len(TIME))  # stamps of the program that logs
    stamps = [[f"{1e9 * t:.0f}" for t in STAMPS + each] for each in (late, 0.0)]
    texts = [[word] * len(TIME) for word in ("base", "joint_1", "joint_2", "joint_3")]
    text(folder / "a.csv", names, [*stamps, *texts, *POSITION.T, *EFFORT.T])
    return folder / "a.csv"


def seconds_and_nanoseconds(folder: Path) -> Path:
    names = ["header.stamp.secs", "header.stamp.nsecs"]
    names += [*numbered("position[{}]", 0), *numbered("effort[{}]", 0)]
    milliseconds = np.round(1e3 * TIME).astype(int) + 500
    whole = [f"{1700000000 + k // 1000}" for k in milliseconds]
    rest = [f"{1000000 * (k % 1000)}" for k in milliseconds]
    text(folder / "a.csv", names, [whole, rest, *POSITION.T, *EFFORT.T])
    return folder / "a.csv"


def host_time_beside(folder: Path) -> Path:
    host = STAMPS + 0.003 * np.random.default_rng(2).random(len(TIME))
    names = ["", "host_time", "controller_time", *numbered("q{}", 0), *numbered("tau{}", 0)]
    columns = [np.arange(len(TIME)), [f"{t:.6f}" for t in host], TIME, *POSITION.T, *EFFORT.T]
    text(folder / "a.csv", names, columns)
    return folder / "a.csv"


def millidegrees(folder: Path) -> Path:
    names = ["cycle", "time_us", *numbered("m{}_position_mdeg"), *numbered("m{}_torque_mNm")]
    columns = [np.arange(len(TIME)), 1e6 * TIME, *(1e3 * DEGREES).T, *(1e3 * EFFORT).T]
    text(folder / "a.csv", names, columns)
    return folder / "a.csv"


def units_in_capitals(folder: Path) -> Path:
    names = ["TIME [MS]", *numbered("POS_A{} [DEG]"), *numbered("TRQ_A{} [NM]")]
    text(folder / "a.csv", names, [1e3 * TIME, *DEGREES.T, *EFFORT.T], sep=";", comma=True)
    return folder / "a.csv"


def french(folder: Path) -> Path:
    names = ["Temps (ms)", *numbered("Axe {} Position (°)"), *numbered("Axe {} Vitesse (tr/min)")]
    names += [*numbered("Axe {} Couple (N.m)"), *numbered("Axe {} Courant (A)")]
    columns = [1e3 * TIME, *DEGREES.T, *(VELOCITY * 30 / np.pi).T, *EFFORT.T, *(EFFORT / 3).T]
    text(folder / "a.csv", names, columns, sep=";", comma=True)
    return folder / "a.csv"


def external_axes_beside(folder: Path) -> Path:
    names = ["Time[ms]", *numbered("Pos_E{}[mm]"), *numbered("Pos_A{}[deg]")]
    names += [*numbered("Torque_E{}[Nm]"), *numbered("Torque_A{}[Nm]")]
    columns = [1e3 * TIME, *(0 * DEGREES).T, *DEGREES.T, *(0 * EFFORT).T, *EFFORT.T]
    text(folder / "a.csv", names, columns)
    return folder / "a.csv"


def labview(folder: Path) -> Path:
    lines = ["LabVIEW Measurement", "Separator\tTab", "Date\t2024/11/18", "***End_of_Header***", ""]
    lines += ["Channels\t6", "Samples\t" + "\t".join(["400"] * 6), "X0\t" + "\t".join(["0,0"] * 6)]
    lines += ["Delta_X\t" + "\t".join(["0,004"] * 6), "***End_of_Header***"]
    names = ["X_Value", *numbered("Position {} (deg)"), *numbered("Torque {} (Nm)"), "Comment"]
    text(folder / "a.lvm", names, [TIME, *DEGREES.T, *EFFORT.T], sep="\t", comma=True)
    written = (folder / "a.lvm").read_text()
    (folder / "a.lvm").write_text("\n".join(lines) + "\n" + written)
    return folder / "a.lvm"


def names_and_units_in_comments(folder: Path) -> Path:
    text(folder / "a.txt", [], [1e3 * TIME, *DEGREES.T, *EFFORT.T], sep="\t")
    names = "\t".join(["t", *numbered("q{}"), *numbered("tau{}")])
    units = "\t".join(["ms", *["deg"] * 3, *["Nm"] * 3])
    written = (folder / "a.txt").read_text()
    (folder / "a.txt").write_text(f"# recorded by rig 3\n# {names}\n# {units}\n{written}")
    return folder / "a.txt"


def units_below_the_names(folder: Path) -> Path:
    names = ["Zeit", *numbered("Achse{} Istposition"), *numbered("Achse{} Istmoment")]
    units = ["[s]", *["[°]"] * 3, *["[Nm]"] * 3]
    columns = [[unit, *values] for unit, values in zip(units, [TIME, *DEGREES.T, *EFFORT.T])]
    text(folder / "a.csv", names, columns, sep=";", comma=True)
    return folder / "a.csv"


def a_letter_before_each_kind(folder: Path) -> Path:
    """What KUKA's RSI sends: actual, setpoint, and motor currents."""
    names = ["IPOC", *numbered("ASPos.A{}"), *numbered("AIPos.A{}"), *numbered("MATrq.A{} [Nm]")]
    columns = [1e3 * TIME + 4208163634, *(DEGREES + 1).T, *DEGREES.T, *EFFORT.T]
    columns[0] = [f"{t:.0f}" for t in columns[0]]
    text(folder / "a.csv", names, columns)
    return folder / "a.csv"


def fanuc(folder: Path) -> Path:
    """Disturbance torques, and commanded positions, before those that are wanted."""
    names = ["Line No.", "Time(ms)"]
    columns = [np.arange(len(TIME)), 1e3 * TIME]
    for k in range(3):
        head = f"J{k + 1}"
        names += [f"{head} Cmd Pos (deg)", f"{head} Act Pos (deg)", f"{head} Dist Torque (Nm)"]
        names.append(f"{head} Motor Torque (Nm)")
        columns += [DEGREES[:, k] + 0.5, DEGREES[:, k], 0.1 * EFFORT[:, k], EFFORT[:, k]]
    text(folder / "a.csv", names, columns)
    return folder / "a.csv"


def axes_with_letters(folder: Path) -> Path:
    """Axes S, L and U; u is also a word for voltages."""
    names = ["Time[ms]", *[f"FbPos {axis} [deg]" for axis in "SLU"]]
    names += [f"FbSpd {axis} [deg/s]" for axis in "SLU"]
    names += [f"Torque {axis} [Nm]" for axis in "SLU"]
    text(folder / "a.csv", names, [1e3 * TIME, *DEGREES.T, *np.degrees(VELOCITY).T, *EFFORT.T])
    return folder / "a.csv"


def quoted_names_in_latin_1(folder: Path) -> Path:
    names = ['"Sample"', '"Zeit [ms]"']
    names += numbered('"""DB_Axis{}"".ActualPosition [°]"')
    names += numbered('"""DB_Axis{}"".ActualTorque [Nm]"')
    columns = [np.arange(len(TIME)), 1e3 * TIME, *DEGREES.T, *EFFORT.T]
    text(folder / "a.csv", names, columns, sep=";", comma=True)
    written = (folder / "a.csv").read_text(encoding="utf-8")
    (folder / "a.csv").write_bytes(written.encode("cp1252"))
    return folder / "a.csv"


def numbers_from_zero_and_from_one(folder: Path) -> Path:
    names = ["t", *numbered("q[{}]", 0), *numbered("tau_{}")]
    text(folder / "a.csv", names, [TIME, *POSITION.T, *EFFORT.T])
    return folder / "a.csv"


def last_joint_first(folder: Path) -> Path:
    names = ["stamp"]
    columns = [TIME]
    for k in (2, 1, 0):
        names += [f"J{k + 1}_pos", f"J{k + 1}_vel", f"J{k + 1}_tau"]
        columns += [POSITION[:, k], VELOCITY[:, k], EFFORT[:, k]]
    text(folder / "a.csv", names, columns)
    return folder / "a.csv"


def torques_of_five_kinds(folder: Path) -> Path:
    names = ["time", *numbered("q_{}")]
    columns = [TIME, *POSITION.T]
    for k in (1, 2, 3):
        names += [f"gravity_torque_{k}", f"friction_torque_{k}", f"torque_cmd_{k}"]
        names += [f"torque_ext_{k}", f"torque_{k}"]
        effort = EFFORT[:, k - 1]
        columns += [0.7 * effort, 0.2 * effort, effort + 0.3, 0.05 * effort, effort]
    text(folder / "a.csv", names, columns)
    return folder / "a.csv"


def signals_in_rows_of_their_own(folder: Path) -> Path:
    """A merge of two messages: where one has numbers the other has blanks."""
    lines = [",".join(["t", *numbered("pos{}"), *numbered("trq{}")])]
    for k, time in enumerate(TIME):
        position = ",".join(f"{x:.10g}" for x in POSITION[k])
        effort = ",".join(f"{x:.10g}" for x in EFFORT[k])
        lines += [f"{time:.6f},{position},,,", f"{time:.6f},,,,{effort}"]
    (folder / "a.csv").write_text("\n".join(lines) + "\n")
    return folder / "a.csv"


def japanese(folder: Path) -> Path:
    names = ["時間[s]", *numbered("位置{}[deg]"), *numbered("トルク{}[Nm]")]
    text(folder / "a.csv", names, [TIME, *DEGREES.T, *EFFORT.T])
    written = (folder / "a.csv").read_bytes()
    (folder / "a.csv").write_bytes(b"\xef\xbb\xbf" + written)
    return folder / "a.csv"


def lists_in_cells(folder: Path) -> Path:
    """What pandas writes of messages: the numbers of all joints in one cell."""
    lines = ["stamp,name,position,effort"]
    for k, time in enumerate(TIME):
        position = ", ".join(f"{x:.10g}" for x in POSITION[k])
        effort = " ".join(f"{x:.10g}" for x in EFFORT[k])
        lines.append(f"{time:.6f},\"['a', 'b']\",\"({position})\",[{effort}]")
    (folder / "a.csv").write_text("\n".join(lines) + "\n")
    return folder / "a.csv"


def units_after_slashes(folder: Path) -> Path:
    names = ["t/s", *numbered("phi_{}/°"), *numbered("M_{}/Nm")]
    text(folder / "a.csv", names, [TIME, *DEGREES.T, *EFFORT.T], sep=";", comma=True)
    return folder / "a.csv"


def units_after_in(folder: Path) -> Path:
    names = ["Zeit in ms", *numbered("Winkel {} in Grad"), *numbered("Moment {} in Nm")]
    text(folder / "a.csv", names, [1e3 * TIME, *DEGREES.T, *EFFORT.T], sep="\t")
    return folder / "a.csv"


def dates_as_an_index_without_a_name(folder: Path) -> Path:
    """What pandas writes of a frame with times as its index."""
    index = pd.Timestamp("2024-07-04 10:00", tz="Europe/Paris") + pd.to_timedelta(TIME, unit="s")
    columns = dict(zip(numbered("pos_j{}"), POSITION.T)) | dict(zip(numbered("tau_j{}"), EFFORT.T))
    pd.DataFrame(columns, index=index).to_csv(folder / "a.csv")
    return folder / "a.csv"


def american_dates(folder: Path) -> Path:
    noon = pd.Timestamp("2024-12-31 11:59:59.5") + pd.to_timedelta(TIME, unit="s")
    stamps = [f"{stamp:%m/%d/%Y %I:%M:%S.%f %p}" for stamp in noon]
    text(
        folder / "a.csv",
        ["Timestamp", *numbered("q{}"), *numbered("torque{}")],
        [stamps, *POSITION.T, *EFFORT.T],
    )
    return folder / "a.csv"


def npz_signals_in_rows_beside_texts(folder: Path) -> Path:
    joints = np.array([motor.name for motor in MOTORS])
    np.savez(folder / "a.npz", stamps=STAMPS, q=POSITION.T, tau=EFFORT.T, joints=joints)
    return folder / "a.npz"


def matlab_signals_in_rows_beside_gear_ratios(folder: Path) -> Path:
    ratio = np.array([100.0, 80.0, 50.0])
    savemat(folder / "a.mat", {"q": POSITION.T, "tau": EFFORT.T, "ratio": ratio, "Ts": 0.004})
    return folder / "a.mat"


def letters_after_underscores(folder: Path) -> Path:
    """A is no ampere beside B and C."""
    names = ["time", *[f"pos_{axis}" for axis in "ABC"], *[f"torque_{axis}" for axis in "ABC"]]
    text(folder / "a.csv", names, [TIME, *POSITION.T, *EFFORT.T])
    return folder / "a.csv"


KINDS: list[Callable[[Path], Path]] = [
    plain_csv,
    semicolons_and_decimal_commas,
    milliseconds_and_degrees,
    microseconds,
    nanoseconds,
    dates,
    no_header,
    no_header_with_velocities,
    ur_rtde,
    franka,
    kuka,
    abb,
    twincat,
    codesys,
    ros_bag,
    matlab_variables,
    matlab_structure,
    matlab_signals_in_rows,
    matlab_one_matrix_of_rows,
    npz,
    parquet_table,
    hdf5,
    plotjuggler,
    smoothed_torques_beside,
    ros_topic_echo,
    seconds_and_nanoseconds,
    host_time_beside,
    millidegrees,
    units_in_capitals,
    french,
    external_axes_beside,
    labview,
    names_and_units_in_comments,
    units_below_the_names,
    a_letter_before_each_kind,
    fanuc,
    axes_with_letters,
    quoted_names_in_latin_1,
    numbers_from_zero_and_from_one,
    last_joint_first,
    torques_of_five_kinds,
    signals_in_rows_of_their_own,
    japanese,
    lists_in_cells,
    units_after_slashes,
    units_after_in,
    dates_as_an_index_without_a_name,
    american_dates,
    npz_signals_in_rows_beside_texts,
    matlab_signals_in_rows_beside_gear_ratios,
    letters_after_underscores,
]


def test_signals_that_are_named_as_well_make_a_proposal_a_guess(tmp_path: Path) -> None:
    names = ["t", *numbered("q{}"), *numbered("torque{}"), *numbered("spring_torque{}")]
    text(tmp_path / "a.csv", names, [TIME, *POSITION.T, *EFFORT.T, *(0.5 * EFFORT).T])
    found = survey(tmp_path / "a.csv", MOTORS)
    assert [column for column, _ in found.proposal["effort"]] == numbered("torque{}")
    assert "a guess: 'spring_torque1' is named as well" in found.description()
    assert "named as well" not in str(found.proposal["position"])


def test_a_row_with_the_text_of_the_next_one_is_no_header(tmp_path: Path) -> None:
    """What `ros2 topic echo --csv` writes: no names, but those of frames and joints in each row."""
    words = ["base", "joint_1", "joint_2", "joint_3"]
    lines = []
    for k, time in enumerate(TIME):
        cells = [f"{time:.6f}", *words, *[f"{x:.10g}" for x in (*POSITION[k], *EFFORT[k])]]
        lines.append(",".join(cells))
    (tmp_path / "a.csv").write_text("\n".join(lines) + "\n")
    found = survey(tmp_path / "a.csv", MOTORS)
    assert found.columns[0].samples == len(TIME)
    assert [column.name for column in found.columns] == ["1", *[str(k) for k in range(6, 12)]]


@pytest.mark.parametrize("write", KINDS, ids=lambda write: write.__name__)
def test_a_proposal_is_read_without_editing(write: Callable[[Path], Path], tmp_path: Path) -> None:
    path = write(tmp_path)
    found = survey(path, MOTORS)
    (tmp_path / "proposal.toml").write_text(found.description(), encoding="utf-8")
    log = read_recording(path, tmp_path / "proposal.toml")
    assert log.joints == tuple(motor.name for motor in MOTORS)
    assert np.allclose(log.time, TIME, atol=1e-5)
    assert np.allclose(log.position, POSITION, atol=1e-6)
    assert log.effort is not None
    assert np.allclose(log.effort, EFFORT, atol=1e-6)


@pytest.mark.parametrize(("turn", "unit"), [(360.0, "deg"), (2 * np.pi, "rad")])
def test_angles_that_start_again_after_a_turn_are_proposed_so(
    tmp_path: Path, turn: float, unit: str
) -> None:
    angles = POSITION * turn / (2 * np.pi)
    names = ["t", *numbered("q{}"), *numbered("tau{}")]
    text(tmp_path / "a.csv", names, [TIME, *(angles % turn).T, *EFFORT.T])
    found = survey(tmp_path / "a.csv", MOTORS)
    written = found.description()
    assert "unwrap = true" in written
    assert not found.objections
    (tmp_path / "d.toml").write_text(written)
    log = read_recording(tmp_path / "a.csv", tmp_path / "d.toml")
    turns = (log.position - POSITION) / (2 * np.pi)
    assert np.allclose(turns, np.round(turns[0]), atol=1e-6)
    text(tmp_path / "a.csv", names, [TIME, *angles.T, *EFFORT.T])
    assert "unwrap" not in survey(tmp_path / "a.csv", MOTORS).description()


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("M/Nm", "Nm"),
        ("velocity/(m/s)", "m/s"),
        ("speed in rad/s", "rad/s"),
        ("speed rad/s", "rad/s"),
        ("torque [% MN]", "%"),
        ("/sensor/V", ""),
        ("tool/grip", ""),
    ],
)
def test_units_are_read_from_the_ends_of_names(tmp_path: Path, name: str, unit: str) -> None:
    text(tmp_path / "a.csv", ["t [s]", name], [TIME, np.sin(TIME)])
    assert survey(tmp_path / "a.csv").column(name).unit == unit


def test_letters_of_axes_after_slashes_are_no_units(tmp_path: Path) -> None:
    names = ["t", *[f"pos/{axis}" for axis in "ABC"], *[f"torque/{axis}" for axis in "ABC"]]
    text(tmp_path / "a.csv", names, [TIME, *POSITION.T, *EFFORT.T])
    proposal = survey(tmp_path / "a.csv", MOTORS).proposal
    assert [column for column, _ in proposal["position"]] == ["pos/A", "pos/B", "pos/C"]
    assert [column for column, _ in proposal["effort"]] == ["torque/A", "torque/B", "torque/C"]


def test_each_signal_has_the_clock_to_its_left(tmp_path: Path) -> None:
    """Of two clocks with even steps; stamps of a program that logs have none."""
    late = TIME * (1 + 1e-4) + 0.003
    names = ["t_enc [s]", *numbered("enc{} [rad]"), "t_drive [s]", *numbered("trq{} [Nm]")]
    text(tmp_path / "a.csv", names, [TIME, *POSITION.T, late, *EFFORT.T])
    found = survey(tmp_path / "a.csv", MOTORS)
    assert found.column("enc2 [rad]").clock == "t_enc [s]"
    assert found.column("trq2 [Nm]").clock == "t_drive [s]"
    assert '[effort.time]\ncolumns = ["t_drive [s]"]' in found.description()
    host = TIME + 0.002 * np.random.default_rng(3).random(len(TIME))
    text(tmp_path / "a.csv", names, [TIME, *POSITION.T, np.sort(host), *EFFORT.T])
    assert survey(tmp_path / "a.csv", MOTORS).column("trq2 [Nm]").clock == "t_enc [s]"


def test_the_words_in_which_names_of_joints_differ_choose_columns(tmp_path: Path) -> None:
    names = ["t", "angle_right", "angle_left", "torque_right", "torque_left"]
    columns = [TIME, *POSITION.T[1::-1], *EFFORT.T[1::-1]]
    text(tmp_path / "a.csv", names, columns)
    motors = [Motor(name="left.motor", unit="rad"), Motor(name="right.motor", unit="rad")]
    proposal = survey(tmp_path / "a.csv", motors).proposal
    assert [column for column, _ in proposal["position"]] == ["angle_left", "angle_right"]
    assert [column for column, _ in proposal["effort"]] == ["torque_left", "torque_right"]


def test_a_position_beyond_what_joints_usually_move_is_questioned(tmp_path: Path) -> None:
    names = ["t", *numbered("q{} [rev]"), *numbered("tau{} [Nm]")]
    text(tmp_path / "a.csv", names, [TIME, *(16 * POSITION).T, *EFFORT.T])
    motors = [motor._replace(limits=None) for motor in MOTORS]
    objections = survey(tmp_path / "a.csv", motors).objections["position"]
    assert "gear ratio" in objections[0]


@pytest.mark.parametrize(
    ("header", "unit"),
    [
        ("[%]", "%"),
        ("[permille]", "permille"),
        ("[1]", "1"),
        ("[% MN]", "%"),
        ("[‰ of rated]", "‰"),
    ],
)
def test_a_fraction_of_the_rated_torque_is_read_as_recorded(
    tmp_path: Path, header: str, unit: str
) -> None:
    names = ["t [s]", *numbered("Position{} [deg]"), *numbered("Torque{} " + header)]
    text(tmp_path / "a.csv", names, [TIME, *DEGREES.T, *EFFORT.T])
    written = survey(tmp_path / "a.csv", MOTORS).description()
    assert "rated" in written
    (tmp_path / "d.toml").write_text(written)
    log = read_recording(tmp_path / "a.csv", tmp_path / "d.toml")
    assert log.effort is None
    assert log.current_units == (unit,) * 3


def rated_description(**more: object) -> dict:
    return {
        "format": 1,
        "joints": ["joint_1", "joint_2", "joint_3"],
        "time": {"columns": ["t"], "units": ["s"]},
        "position": {"columns": numbered("q{}"), "unit": "rev", "ratio": [100, 50, -50]},
        "effort": {"columns": numbered("m{}"), "unit": "permille", "ratio": [100, 50, -50], **more},
    }


def test_rated_torque_and_gear_ratio_take_motors_to_joints(tmp_path: Path) -> None:
    ratio = np.array([100, 50, -50])
    rated = np.array([1.27, 0.64, 0.64])
    turns = POSITION * ratio / (2 * np.pi)
    fraction = EFFORT / (ratio * rated) * 1000
    text(
        tmp_path / "a.csv", ["t", *numbered("q{}"), *numbered("m{}")], [TIME, *turns.T, *fraction.T]
    )
    description = rated_description(rated=["1.27 Nm", "0.64 N m", "640 mNm"])
    log = read_recording(tmp_path / "a.csv", description)
    assert np.allclose(log.position, POSITION, atol=1e-8)
    assert log.effort is not None
    assert np.allclose(log.effort, EFFORT, atol=1e-6)


@pytest.mark.parametrize(
    ("rated", "message"),
    [(None, "rated = "), ("1.27 A", "rated is '1.27 A'"), ("1.27", "not a number with a unit")],
)
def test_a_fraction_of_nothing_is_refused(rated: str | None, message: str) -> None:
    more = {} if rated is None else {"rated": rated}
    with pytest.raises(GoughError, match=message):
        parse_description(rated_description(**more))
