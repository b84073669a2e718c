"""The same run through every door: what controllers, oscilloscopes, MATLAB, ROS and notebooks
write.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from bags import write_bag
from pyarrow import feather, parquet
from scipy.io import savemat

from gough.core.errors import GoughError, InvalidInput, InvalidRecording
from gough.logs.description import load_description, parse_description
from gough.logs.readers import read_recording
from gough.logs.recording import Recording
from gough.logs.recording_sources import open_recording
from gough.verdict.corrections import description_text

JOINTS = ["left.motor", "right.motor"]
TIME = np.arange(200) / 100.0
POSITION = np.column_stack([np.sin(3 * TIME), np.cos(2 * TIME) - 0.5])
EFFORT = np.column_stack([5 * np.cos(3 * TIME), 4 * np.sin(2 * TIME + 0.3)])


def described(
    time: str = "t",
    position: list[str] | None = None,
    effort: list[str] | None = None,
    **more: object,
) -> dict:
    own = {key: more.pop(key) for key in list(more) if key in ("position_more", "effort_more")}
    return {
        "format": 1,
        "joints": JOINTS,
        "time": {"columns": [time], "units": ["s"]},
        "position": {
            "columns": position or ["q[1]", "q[2]"],
            "unit": "rad",
            **own.get("position_more", {}),
        },
        "effort": {
            "columns": effort or ["i[1]", "i[2]"],
            "unit": "N m",
            **own.get("effort_more", {}),
        },
        **more,
    }


def is_the_run(log: Recording, tolerance: float = 1e-9) -> None:
    assert log.joints == tuple(JOINTS)
    assert np.allclose(log.time, TIME, atol=1e-6)
    assert np.allclose(log.position, POSITION, atol=tolerance)
    assert np.allclose(log.effort, EFFORT, atol=tolerance)


def as_hdf5(path: Path) -> dict:
    with h5py.File(path / "run.h5", "w") as file:
        file["log/t"], file["log/q"], file["log/i"], file["note"] = TIME, POSITION, EFFORT, "a word"
    return described("log.t", ["log.q[1]", "log.q[2]"], ["log.i[1]", "log.i[2]"])


def as_hdf5_of_records(path: Path) -> dict:
    rows = np.zeros(
        len(TIME), dtype=[("t", "f8"), ("a", "f8"), ("b", "f8"), ("c", "f8"), ("d", "f8")]
    )
    for name, column in zip(rows.dtype.names or (), (TIME, *POSITION.T, *EFFORT.T)):
        rows[name] = column
    with h5py.File(path / "run.h5", "w") as file:
        file.create_dataset("rows", data=rows, compression="gzip")
    return described("rows.t", ["rows.a", "rows.b"], ["rows.c", "rows.d"])


def as_feather(path: Path) -> dict:
    table = pa.table(
        {"t": TIME, "a": POSITION[:, 0], "b": POSITION[:, 1], "c": EFFORT[:, 0], "d": EFFORT[:, 1]}
    )
    feather.write_feather(table, path / "run.feather", compression="zstd", chunksize=64)
    return described("t", ["a", "b"], ["c", "d"])


def as_parquet_of_lists(path: Path) -> dict:
    fixed = pa.FixedSizeListArray.from_arrays(pa.array(EFFORT.ravel()), 2)
    parquet.write_table(
        pa.table({"t": pa.array(TIME), "q": pa.array(POSITION.tolist()), "i": fixed}),
        path / "run.parquet",
        row_group_size=33,
    )
    return described()


def as_nested_mat(path: Path) -> dict:
    savemat(
        path / "run.mat", {"out": {"t": TIME, "arm": {"q": POSITION, "i": EFFORT}, "note": "words"}}
    )
    return described("out.t", ["out.arm.q[1]", "out.arm.q[2]"], ["out.arm.i[1]", "out.arm.i[2]"])


def as_simulink_structure(path: Path) -> dict:
    """Structure with time; a signal of dimension 2 x 1 is saved with a page for each sample."""
    signals = [{"values": POSITION, "label": "q"}, {"values": EFFORT.T[:, None, :], "label": "i"}]
    savemat(
        path / "run.mat", {"logsout": {"time": TIME, "signals": signals, "blockName": "m/To File"}}
    )
    names = [[f"logsout.signals.{label}.values[{j}]" for j in (1, 2)] for label in "qi"]
    return described("logsout.time", *names)


def as_timeseries_structure(path: Path) -> dict:
    savemat(
        path / "run.mat",
        {"q": {"Time": TIME, "Data": POSITION}, "i": {"Time": TIME, "Data": EFFORT.T}},
    )
    return described("q.Time", ["q.Data[1]", "q.Data[2]"], ["i.Data[1]", "i.Data[2]"])


def as_twincat(path: Path) -> dict:
    """TwinCAT Scope: a block of key and value for each channel, then time and value for each;
    decimal commas, tabs.
    """
    names = ["Axis1.Pos", "Axis2.Pos", "Axis1.Trq", "Axis2.Trq"]
    keys = {
        "Name": names,
        "SymbolComment": [""] * 4,
        "Data-Type": ["REAL64"] * 4,
        "SampleTime[ms]": ["10"] * 4,
        "Port": ["851"] * 4,
        "ScaleFactor": ["1"] * 4,
    }
    lines = [
        "Name\tYT Scope Project",
        "File\tC:\\scope.svdx",
        "Starttime of export\t133000000000",
        "",
        *("\t".join(f"{key}\t{value}" for value in values) for key, values in keys.items()),
        "",
    ]
    for t, *values in zip(TIME, *POSITION.T, *EFFORT.T):
        lines.append(
            "\t".join(f"{1000 * t:.1f}\t{value:.12f}" for value in values).replace(".", ",")
        )
    (path / "run.csv").write_text("\r\n".join(lines) + "\r\n", encoding="utf-16")
    return described("Axis1.Pos time", names[:2], names[2:], decimal=",") | {
        "time": {"columns": ["Axis1.Pos time"], "units": ["ms"]}
    }


def as_codesys(path: Path) -> dict:
    """A trace: a few lines about it, then each variable with its own time stamps, semicolons."""
    lines = [
        "Trace;Application.Trace1;1.0",
        "Device: PLC_1",
        "Recorded;2024-05-06;12:00:00",
        "",
        ";".join(f"Timestamp;GVL.{name}" for name in "abcd"),
    ]
    for t, *values in zip(TIME, *POSITION.T, *EFFORT.T):
        lines.append(";".join(f"{1e6 * t:.0f};{value:.12f}" for value in values))
    (path / "run.csv").write_text("\n".join(lines) + "\n")
    return described("GVL.a time", ["GVL.a", "GVL.b"], ["GVL.c", "GVL.d"]) | {
        "time": {"columns": ["GVL.a time"], "units": ["us"]}
    }


def as_dates(path: Path) -> dict:
    stamps = pd.Timestamp("2024-05-06T23:59:59", tz="UTC") + pd.to_timedelta(TIME, unit="s")
    frame = pd.DataFrame(
        {
            "stamp": [s.isoformat() for s in stamps],
            "state": "RUN",
            "a": POSITION[:, 0],
            "b": POSITION[:, 1],
            "c": EFFORT[:, 0],
            "d": EFFORT[:, 1],
        }
    )
    frame.to_csv(path / "run.csv", index=False)
    return described("stamp", ["a", "b"], ["c", "d"])


def as_one_column_files(path: Path) -> dict:
    for name, column in zip(("t", "q1", "q2", "i1", "i2"), (TIME, *POSITION.T, *EFFORT.T)):
        (path / f"{name}.txt").write_text("".join(f"{x:.12g}\n" for x in column))
    return {
        "format": 1,
        "joints": JOINTS,
        "time": {"file": "t.txt", "units": ["s"]},
        "position": {"files": ["q1.txt", "q2.txt"], "unit": "rad"},
        "effort": {"files": ["i1.txt", "i2.txt"], "unit": "N m"},
    }


DOORS: list[Callable[[Path], dict]] = [
    as_hdf5,
    as_hdf5_of_records,
    as_feather,
    as_parquet_of_lists,
    as_nested_mat,
    as_simulink_structure,
    as_timeseries_structure,
    as_twincat,
    as_codesys,
    as_dates,
    as_one_column_files,
]


@pytest.mark.parametrize("write", DOORS, ids=lambda door: door.__name__)
def test_a_run_is_the_same_through_every_door(tmp_path, write: Callable[[Path], dict]) -> None:
    description = write(tmp_path)
    files = list(tmp_path.iterdir())
    is_the_run(read_recording(files[0] if len(files) == 1 else tmp_path, description))


@pytest.mark.parametrize("storage", ["mcap", "db3", "bag"])
def test_a_bag_tells_joints_by_name_and_keeps_its_clocks_apart(tmp_path, storage: str) -> None:
    warm = 20 + TIME
    path = write_bag(
        tmp_path, TIME, JOINTS[::-1], POSITION[:, ::-1], EFFORT[:, ::-1], storage=storage, slow=warm
    )
    names = [
        [f"/joint_states/{joint}.{kind}" for joint in JOINTS] for kind in ("position", "effort")
    ]
    description = described("/joint_states/header.stamp", *names) | {
        "extra": {
            "names": ["gear"],
            "columns": ["/gear/temperature/data"],
            "unit": "degC",
            "time": {"columns": ["/gear/temperature/time"], "units": ["s"]},
        }
    }
    log = read_recording(path, description)
    kept = len(log)  # until the last temperature
    assert kept == 191
    assert np.allclose(log.position, POSITION[:kept], atol=1e-12)
    assert np.allclose(log.effort, EFFORT[:kept], atol=1e-12)
    assert np.allclose(np.diff(log.time), 0.01, atol=1e-9)
    assert np.allclose(log.extra["gear"], warm[:kept], atol=1e-6)
    assert log.take(slice(5, 9)).extra["gear"] == pytest.approx(warm[5:9])
    late = read_recording(path, described("/joint_states/time", *names))
    assert np.allclose(late.position, POSITION, atol=1e-12)


def test_messages_about_some_of_the_joints_are_brought_together(tmp_path) -> None:
    """Two publishers on one topic, each with its own joint, at different times."""
    both = np.sort(np.concatenate([TIME, TIME + 0.004]))
    from rosbags.rosbag2 import Writer
    from rosbags.typesys import Stores, get_typestore

    store = get_typestore(Stores.LATEST)
    stamp, header, state = (
        store.types[name]
        for name in (
            "builtin_interfaces/msg/Time",
            "std_msgs/msg/Header",
            "sensor_msgs/msg/JointState",
        )
    )
    with Writer(tmp_path / "run", version=9) as writer:
        states = writer.add_connection("/joint_states", state.__msgtype__, typestore=store)
        for k, t in enumerate(both):
            j = k % 2
            values = [
                np.array([f(t)])
                for f in (
                    (lambda t: np.sin(3 * t), lambda t: 5 * np.cos(3 * t)),
                    (lambda t: np.cos(2 * t) - 0.5, lambda t: 4 * np.sin(2 * t + 0.3)),
                )[j]
            ]
            now = 10**18 + round(t * 1e9)
            message = state(
                header=header(stamp=stamp(sec=now // 10**9, nanosec=now % 10**9), frame_id=""),
                name=[JOINTS[j]],
                position=values[0],
                velocity=np.zeros(0),
                effort=values[1],
            )
            writer.write(states, now, bytes(store.serialize_cdr(message, state.__msgtype__)))
    names = [
        [f"/joint_states/{joint}.{kind}" for joint in JOINTS] for kind in ("position", "effort")
    ]
    more = {"interpolation": "cubic"}
    log = read_recording(
        tmp_path / "run",
        described("/joint_states/time", *names, position_more=more, effort_more=more),
    )
    t = log.time + 0.01  # the second joint begins 4 ms later
    assert np.allclose(
        log.position, np.column_stack([np.sin(3 * t), np.cos(2 * t) - 0.5]), atol=1e-6
    )
    with pytest.raises(InvalidRecording, match="is blank at sample"):
        open_recording(tmp_path / "run", described("/joint_states/time", *names))


def test_blank_cells_are_other_clocks(tmp_path) -> None:
    """PlotJuggler: one time column, and each series only at its own times."""
    rows = []
    for k, t in enumerate(TIME):
        rows.append((t, f"{t:.3f},{np.sin(3 * t):.12f},{np.cos(2 * t) - 0.5:.12f},,"))
        rows.append(
            (
                t + 0.003,
                f"{t + 0.003:.3f},,,{5 * np.cos(3 * (t + 0.003)):.12f},"
                f"{4 * np.sin(2 * (t + 0.003) + 0.3):.12f}"
                if k % 2
                else "",
            )
        )
    lines = [text for _, text in sorted(rows) if text]
    (tmp_path / "run.csv").write_text("__time,/q/0,/q/1,/tau/0,/tau/1\n" + "\n".join(lines) + "\n")
    description = described(
        "__time", ["/q/0", "/q/1"], ["/tau/0", "/tau/1"], effort_more={"interpolation": "cubic"}
    )
    log = read_recording(tmp_path / "run.csv", description)
    at = TIME[(TIME >= 0.013) & (TIME <= 1.993)]
    assert len(log) == len(at)
    assert np.allclose(log.position[:, 0], np.sin(3 * at), atol=1e-9)
    assert np.allclose(log.effort[:, 0], 5 * np.cos(3 * at), atol=1e-5)
    assert any(f.rule == "clock" for f in log.notices)
    with pytest.raises(InvalidRecording, match="blank"):
        open_recording(tmp_path / "run.csv", description)
    damaged = (tmp_path / "run.csv").read_text().replace("0.050,", ",", 1)
    (tmp_path / "hurt.csv").write_text(damaged)
    with pytest.raises(InvalidRecording, match="'__time' is nan at sample 5"):
        read_recording(tmp_path / "hurt.csv", description)


def csv_of(folder: Path, time: np.ndarray | None = TIME) -> Path:
    columns = {} if time is None else {"t": time}
    frame = pd.DataFrame(
        columns | {"a": POSITION[:, 0], "b": POSITION[:, 1], "c": EFFORT[:, 0], "d": EFFORT[:, 1]}
    )
    frame.to_csv(folder / "run.csv", index=False)
    return folder / "run.csv"


NAMES = ("t", ["a", "b"], ["c", "d"])


def test_a_rate_alone_is_a_clock(tmp_path) -> None:
    description = described(*NAMES, rate="100 Hz")
    del description["time"]
    is_the_run(read_recording(csv_of(tmp_path, None), description))
    with pytest.raises(InvalidRecording, match="no time base"):
        read_recording(
            csv_of(tmp_path, None), {k: v for k, v in description.items() if k != "rate"}
        )


def test_a_line_of_units_belongs_to_the_names(tmp_path) -> None:
    path = csv_of(tmp_path)
    head, _, rest = path.read_text().partition("\n")
    path.write_text(f"{head}\ns,rad,rad,N m,[N m]\n{rest}")
    log = read_recording(path, described("t [s]", ["a [rad]", "b [rad]"], ["c [N m]", "d [N m]"]))
    is_the_run(log)
    assert any(f.rule == "above" and f.numbers["lines"] == 2 for f in log.notices)


def test_start_and_stop_cut_a_stretch_out_and_skip_leaves_lines_out(tmp_path) -> None:
    path = csv_of(tmp_path)
    path.write_text("12,13,14\n1,2,3,4\n" + path.read_text())
    log = read_recording(path, described(*NAMES, skip=2, start="0.5 s", stop="1500 ms"))
    assert np.allclose(log.position, POSITION[50:151])
    assert log.time[0] == 0
    with pytest.raises(InvalidRecording, match=r"start and stop leave 0 samples of 1\.99 s"):
        read_recording(path, described(*NAMES, skip=2, start="5 s"))
    with pytest.raises(InvalidRecording, match="cutting"):
        open_recording(path, described(*NAMES, skip=2, start="0.5 s"))


def test_a_stretch_of_an_even_clock_begins_where_it_is_told_to(tmp_path) -> None:
    """Stamps that begin at a fraction of a second: 0.35 s - 0.25 s is less than 0.1 s."""
    log = read_recording(
        csv_of(tmp_path, 5000.25 + TIME), described(*NAMES, rate="50 Hz", start="0.1 s")
    )
    assert len(log) == 95
    assert np.allclose(log.position, POSITION[10::2], atol=1e-9)


def test_values_and_stamps_of_different_number_are_refused_with_blanks_too(tmp_path) -> None:
    (tmp_path / "q.csv").write_text("a,b\n1,2\n,3\n2,4\n")
    (tmp_path / "clock.csv").write_text("t\n0\n1\n")
    data = {
        "format": 1,
        "joints": JOINTS,
        "time": {"file": "clock.csv", "units": ["s"]},
        "position": {"file": "q.csv", "columns": ["a", "b"], "unit": "rad"},
    }
    with pytest.raises(InvalidRecording, match=r"column 'a' has 3 samples, its time 2"):
        read_recording(tmp_path, data)


def test_one_sample_is_a_log_on_any_clock(tmp_path) -> None:
    path = csv_of(tmp_path)
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:2]))
    for rate in ({}, {"rate": "50 Hz"}):
        assert len(read_recording(path, described(*NAMES, **rate, payload=None))) == 1


def test_offsets_are_per_joint_and_extra_channels_are_kept_as_recorded(tmp_path) -> None:
    description = described(
        *NAMES,
        position_more={"offset": [0.1, -0.2]},
        extra={"names": ["gear"], "columns": ["c"], "unit": "degF", "scale": 2.0, "offset": 1.0},
    )
    log = read_recording(csv_of(tmp_path), description)
    assert np.allclose(log.position, POSITION + np.array([0.1, -0.2]))
    assert np.allclose(log.extra["gear"], 2 * EFFORT[:, 0] + 1)
    assert log.extra.units == ("degF",)
    again = read_recording(log.save(tmp_path / "again.csv"))
    assert np.array_equal(again.extra["gear"], log.extra["gear"])
    with pytest.raises(InvalidInput, match="did you mean 'gear'"):
        log.extra["geer"]
    assert "gear" in log.extra
    assert not len(log.take(slice(0, 5)).pose or ())


def test_a_description_is_written_as_it_was_read(tmp_path) -> None:
    full = described(*NAMES, skip=2, start="0.5 s", stop="1.5 s", rate="50 Hz") | {
        "time": {"file": "t.txt", "columns": ["t"], "units": ["ms"]}
    }
    for kind in ("position", "effort"):
        full[kind] |= {"files": [f"{kind}1.txt", f"{kind}2.txt"]}
    one = parse_description(full)
    (tmp_path / "again.toml").write_text(description_text(one))
    two = load_description(tmp_path / "again.toml")
    assert (one.skip, one.start, one.stop, one.rate) == (two.skip, two.start, two.stop, two.rate)
    assert [s.file for s in one.signals] == [s.file for s in two.signals]
    assert [s.clock.file for s in two.signals] == ["t.txt"] * 4


def test_a_dataframe_passes_the_checks_of_a_file() -> None:
    frame = pd.DataFrame(
        {"a": POSITION[:, 0], "b": POSITION[:, 1], "c": EFFORT[:, 0], "d": EFFORT[:, 1]},
        index=pd.Index(TIME, name="t"),
    )
    is_the_run(Recording.from_dataframe(frame, described(*NAMES)))
    dated = frame.set_index(
        pd.Timestamp("2024-05-06", tz="Europe/Berlin") + pd.to_timedelta(TIME, unit="s")
    )
    dated.index.name = "t"
    is_the_run(Recording.from_dataframe(dated, described(*NAMES)))
    own = pd.DataFrame(
        {
            "time [ms]": 1e3 * TIME,
            **{f"{name}.position [deg]": np.degrees(q) for name, q in zip(JOINTS, POSITION.T)},
            **{f"{name}.effort [N m]": tau for name, tau in zip(JOINTS, EFFORT.T)},
        }
    )
    is_the_run(Recording.from_dataframe(own))
    hurt = frame.copy()
    hurt.iloc[7, 1] = np.nan
    with pytest.raises(InvalidRecording, match="column 'b' is nan at sample 7"):
        Recording.from_dataframe(hurt, described(*NAMES))
    with pytest.raises(InvalidRecording, match="more than one column is named 'a'"):
        Recording.from_dataframe(
            frame.rename(columns={"b": "a"}), described("t", ["a", "a"], ["c", "d"])
        )
    with pytest.raises(InvalidInput, match="a DataFrame was expected, not a list"):
        Recording.from_dataframe([1, 2])


def test_arrays_pass_the_checks_of_a_file() -> None:
    units = {"position": ["rad", "deg"], "effort": "N m", "extra": "degC"}
    degrees = POSITION * [1, 180 / np.pi]
    is_the_run(
        Recording.from_arrays(JOINTS, position=degrees, effort=EFFORT, time=TIME, units=units)
    )
    log = Recording.from_arrays(
        JOINTS,
        position=degrees,
        effort=EFFORT,
        rate=100.0,
        units=units,
        period_samples=50,
        extra={"gear": TIME},
    )
    is_the_run(log)
    assert (log.period_count, log.inspected) == (4, True)
    assert np.array_equal(log.extra["gear"], TIME)
    for wrong, words in (
        ({"units": {}}, "the unit of position is missing"),
        ({"units": {"position": None}}, "the unit of position is missing"),
        ({"position": degrees[:, :1]}, r"position has shape \(200, 1\), expected \(any, 2\)"),
        ({"time": TIME}, "either time or rate"),
        ({"torque": EFFORT}, "no signal 'torque'"),
        ({"position": degrees * np.nan}, "is nan at sample 0"),
        ({"effort": EFFORT[:9]}, "has 9 samples, its time 200"),
    ):
        with pytest.raises(GoughError, match=words):
            Recording.from_arrays(
                JOINTS, **({"position": degrees, "rate": 100.0, "units": units} | wrong)
            )


def test_what_matlab_alone_can_read_is_named_with_a_cure(tmp_path) -> None:
    with h5py.File(tmp_path / "run.mat", "w", userblock_size=512) as file:
        file["q"] = np.zeros((1, 6), dtype=np.uint32)
        file["q"].attrs["MATLAB_object_decode"] = 3
        file["q"].attrs["MATLAB_class"] = np.bytes_("timeseries")
    with open(tmp_path / "run.mat", "r+b") as handle:
        handle.write(
            b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(116) + bytes(8) + b"\x00\x02IM"
        )
    with pytest.raises(
        InvalidRecording,
        match=r"'q' is a timeseries of MATLAB.*save its numbers, e\.g\. t = x\.Time",
    ):
        read_recording(tmp_path / "run.mat", described())


def test_an_unpacked_file_that_outgrows_its_bytes_is_refused(tmp_path) -> None:
    with h5py.File(tmp_path / "run.h5", "w") as file:
        file.create_dataset("q", shape=(10**9,), dtype="f8", chunks=(10**6,), compression="gzip")
    with pytest.raises(InvalidRecording, match="unpacks to more than"):
        read_recording(tmp_path / "run.h5", described())


@pytest.mark.parametrize("name", ["run.bag", "run.mcap", "run.db3", "run.h5", "run.feather"])
def test_a_file_that_is_not_what_its_suffix_says_is_refused(tmp_path, name: str) -> None:
    (tmp_path / name).write_bytes(b"time,q\n0,1\n1,2\n" * 9)
    with pytest.raises(InvalidRecording, match=f"{name} cannot be read as"):
        read_recording(tmp_path / name, described())


def test_a_recording_goes_through_a_bag_and_back(tmp_path) -> None:
    rng = np.random.default_rng(3)
    time = 7.0 + np.arange(60) / 250.0
    values = rng.standard_normal((5, 60, 2))
    made = Recording.from_arrays(
        ["a", "b"],
        time=time,
        position=values[0],
        effort=values[1],
        velocity=values[2],
        reference=values[3],
        extra={"oil": values[4][:, 0]},
        payload="disc",
        units={
            "position": "rad",
            "effort": "N m",
            "velocity": "rad/s",
            "reference": "rad",
            "extra": "1",
        },
    )
    made.save(tmp_path / "run.mcap", settings={"seed": 3})
    joints, clock = ["a", "b"], {"columns": ["/joint_states/header.stamp"], "units": ["s"]}
    keys = {"format": 1, "joints": joints, "time": clock} | {
        kind: {"columns": [f"/joint_states/{joint}.{kind}" for joint in joints], "unit": unit}
        for kind, unit in (("position", "rad"), ("effort", "N m"), ("velocity", "rad/s"))
    }
    keys["extra"] = {"names": ["oil"], "columns": ["/extra/oil.position"], "unit": "1"}
    back = read_recording(tmp_path / "run.mcap", keys)
    np.testing.assert_allclose(back.time, time - time[0], atol=1e-9)
    for kind, group in back.groups():
        np.testing.assert_array_equal(group.values, dict(made.groups())[kind].values)


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-16", "cp1252", "utf-8-sig"])
def test_texts_of_windows_are_read_with_their_signs(tmp_path, encoding: str) -> None:
    lines = ["time [ms];a.position [°];a.current [A];Öltemperatur"]
    lines += [f"{k};{k * k};{-k};20" for k in range(12)]
    (tmp_path / "run.csv").write_bytes("\n".join([*lines, ""]).encode(encoding))
    found = read_recording(tmp_path / "run.csv")
    np.testing.assert_allclose(found.position[:, 0], np.radians(np.arange(12.0) ** 2), rtol=1e-14)
    assert any(f.rule == "ignored" and f.where == "Öltemperatur" for f in found.notices)
    assert any(f.rule == "encoding" for f in found.notices) == (encoding == "cp1252")


@pytest.mark.parametrize(
    "first",
    [
        "23:59:01.250",
        "31.12.2024 23:59:01,250",
        "2024-12-31T22:59:01.250Z",
        "2024-12-31 23:59:01.250+01:00",
    ],
)
def test_clocks_in_words_are_seconds(tmp_path, first: str) -> None:
    stamps = [
        first[: first.index(":01") + 1] + f"{k:02d}" + first[first.index(":01") + 3 :]
        for k in range(1, 30)
    ]
    rows = "".join(f"{stamp};{k * 0.5}\n" for k, stamp in enumerate(stamps))
    (tmp_path / "run.csv").write_text("clock;q\n" + rows)
    keys = {
        "format": 1,
        "joints": ["a"],
        "time": {"columns": ["clock"], "units": ["s"]},
        "position": {"columns": ["q"], "unit": "rad"},
    }
    np.testing.assert_allclose(
        read_recording(tmp_path / "run.csv", keys).time, np.arange(29.0), atol=1e-6
    )


def test_spans_of_time_are_seconds_and_what_is_left_out_says_why(tmp_path) -> None:
    spans = pa.array(np.arange(20) * 4000).cast(pa.duration("us"))
    parquet.write_table(
        pa.table({"t": spans, "q": np.arange(20.0), "odd": [[0.0] * (k % 3) for k in range(20)]}),
        tmp_path / "run.parquet",
    )
    keys = {
        "format": 1,
        "joints": ["a"],
        "time": {"columns": ["t"], "units": ["s"]},
        "position": {"columns": ["q"], "unit": "rad"},
    }
    np.testing.assert_allclose(
        read_recording(tmp_path / "run.parquet", keys).time, 0.004 * np.arange(20), atol=1e-12
    )
    keys["position"]["columns"] = ["odd"]
    with pytest.raises(InvalidRecording, match="lists of different lengths"):
        read_recording(tmp_path / "run.parquet", keys)
