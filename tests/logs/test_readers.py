"""Reading logs: formats, clocks, and everything that must be refused."""

import gzip
import sys
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.io import savemat

from gough.core.errors import InvalidInput, InvalidRecording
from gough.logs.description import load_description
from gough.logs.readers import read_recording
from gough.logs.recording import Channels, Recording
from gough.logs.recording_sources import open_recording

HEADER = "time [s],leg1.slider.position [m],leg1.slider.current [A]\n"
ROWS = "0.0,0.5,1\n0.1,0.6,2\n0.2,0.7,3\n"


def write(folder, text: str | bytes, name: str = "run.csv"):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def full(samples: int = 50) -> Recording:
    rng = np.random.default_rng(1)
    value = rng.normal(size=(samples, 2)).cumsum(axis=0)
    return Recording(
        joints=("leg1.slider", "leg2.motor"),
        time=np.arange(samples) / 500.0 + 3.0,
        position=value,
        position_units=("m", "rad"),
        effort=rng.normal(size=(samples, 2)),
        current=rng.normal(size=(samples, 2)),
        current_units=("A", "V"),
        velocity=value * 2,
        reference=value + 1,
        pose=Channels(names=("platform.x", "platform.rz"), units=("m", "rad"), values=value * 3),
        passive=Channels(names=("leg1.swivel",), units=("rad",), values=value[:, :1]),
        mocap=Channels(names=("platform.x",), units=("m",), values=value[:, 1:]),
        payload='disc, "heavy"\n1.98 kg <b>',
        period_samples=25,
        source="memory",
    )


def same(a: Recording, b: Recording) -> None:
    assert a.joints == b.joints
    assert (a.payload, a.period_samples, a.position_units, a.current_units) == (
        b.payload,
        b.period_samples,
        b.position_units,
        b.current_units,
    )
    assert np.array_equal(a.time, b.time)
    one, two = dict(a.groups()), dict(b.groups())
    assert list(one) == list(two)
    for kind in one:
        assert one[kind].names == two[kind].names
        assert one[kind].units == two[kind].units
        assert np.array_equal(one[kind].values, two[kind].values)


@pytest.mark.parametrize("name", ["run.csv", "run.csv.gz", "run.npz"])
def test_what_was_saved_is_read_back_to_the_last_bit(tmp_path, name: str) -> None:
    same(read_recording(full().save(tmp_path / name)), full())


@pytest.mark.parametrize("name", ["run.csv", "run.csv.gz", "run.npz"])
@pytest.mark.parametrize("size", [7, 50, 1000])
def test_blocks_join_to_what_is_read_whole(tmp_path, name: str, size: int) -> None:
    source = open_recording(full().save(tmp_path / name))
    parts = list(source.blocks(size))
    assert max(len(p) for p in parts) <= size
    assert np.array_equal(np.concatenate([p.time for p in parts]), full().time)
    assert np.array_equal(np.concatenate([p.current for p in parts]), full().current)
    assert source.joints == full().joints
    assert source.period_samples == 25
    assert source.payload == full().payload
    same(source.read(), full())


def test_reading_a_long_npz_in_blocks_takes_little_memory(tmp_path) -> None:
    source = open_recording(full(200_000).save(tmp_path / "long.npz"))
    tracemalloc.start()
    assert sum(len(block) for block in source.blocks(1000)) == 200_000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2e6  # the file holds 200,000 x 15 doubles, 24 MB


def test_a_compressed_npz_of_named_columns_is_read_too(tmp_path) -> None:
    values = np.arange(4.0)
    columns = {"time [ms]": values, "a.position [mm]": values, "a.effort [N]": values}
    np.savez_compressed(tmp_path / "run.npz", **columns)
    recording = read_recording(tmp_path / "run.npz")
    assert np.allclose(recording.time, values / 1000)
    assert np.allclose(recording.position[:, 0], values / 1000)


@pytest.mark.parametrize("delimiter", ["\t", ";", ",", "|"])
def test_any_delimiter_is_found(tmp_path, delimiter: str) -> None:
    recording = read_recording(write(tmp_path, (HEADER + ROWS).replace(",", delimiter), "run.txt"))
    assert np.array_equal(recording.position[:, 0], [0.5, 0.6, 0.7])


def test_white_space_columns_and_a_byte_order_mark_are_read(tmp_path) -> None:
    text = "﻿time[s]   a.position[m]  a.effort[N]\r\n 0.0  1  2\r\n 0.1   3 4\r\n"
    assert np.array_equal(
        read_recording(write(tmp_path, text, "run.dat")).position[:, 0], [1.0, 3.0]
    )


def test_units_are_converted_to_si(tmp_path) -> None:
    text = (
        "time [ms],a.position [deg],a.effort [mN m],b.position [mm],b.effort "
        "[kN]\n0,180,1000,5,2\n1,90,0,6,3\n"
    )
    recording = read_recording(write(tmp_path, text))
    assert recording.position_units == ("rad", "m")
    assert np.allclose(recording.position[0], [np.pi, 0.005])
    assert np.allclose(recording.effort[0], [1.0, 2000.0])
    assert np.allclose(recording.time, [0.0, 0.001])


def test_a_line_cut_short_at_the_end_is_dropped_and_reported(tmp_path) -> None:
    for tail in ("0.3,0.8", "0.3,0.8,1e-", "0.3", "0.3,0.8\n"):
        recording = read_recording(write(tmp_path, HEADER + ROWS + tail))
        assert len(recording) == 3
        found = [f for f in recording.notices if f.rule == "truncated"]
        assert len(found) == 1
        assert found[0].numbers["line"] == 5
        *_, last = open_recording(tmp_path / "run.csv").blocks(2)
        assert [f.rule for f in last.notices] == ["truncated"]


def test_a_whole_last_line_without_line_end_is_kept_and_reported(tmp_path) -> None:
    recording = read_recording(write(tmp_path, HEADER + ROWS.rstrip("\n")))
    assert len(recording) == 3
    assert [f.rule for f in recording.notices if f.where == "run.csv"] == ["unterminated"]


def test_a_gzip_file_that_stops_early_is_read_as_far_as_it_goes(tmp_path) -> None:
    rng = np.random.default_rng(0)
    lines = "".join(f"{i / 10},{x},{y}\n" for i, (x, y) in enumerate(rng.normal(size=(5000, 2))))
    data = gzip.compress((HEADER + lines).encode())
    recording = read_recording(write(tmp_path, data[: len(data) // 2], "run.csv.gz"))
    assert 1000 < len(recording) < 4000
    assert any(f.rule == "truncated" and "compressed" in f.text for f in recording.notices)


def test_columns_nobody_knows_are_reported_as_left_out(tmp_path) -> None:
    text = "time [s],a.position [m],<script>alert(1)</script>\n0,1,2\n1,2,3\n"
    found = [f for f in read_recording(write(tmp_path, text)).notices if f.rule == "ignored"]
    assert [f.where for f in found] == ["<script>alert(1)</script>"]


def test_names_that_look_like_code_stay_text(tmp_path) -> None:
    name = '<img src="x" onerror="alert(1)">, {0} %s'
    recording = full()
    evil = Recording(
        joints=(name,),
        time=recording.time,
        position=recording.position[:, :1],
        position_units=("m",),
        effort=recording.effort[:, :1],
    )
    for file in ("run.csv", "run.npz"):
        assert read_recording(evil.save(tmp_path / file)).joints == (name,)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "empty"),
        ("\n\n", "empty"),
        (HEADER, "no table|no samples"),
        ("one line", "no samples"),
        ("word", "only one line"),
        (b"\x00\x01\x02\x03PNG\n\x00\x00", "binary"),
        (b"\x89PNG\r\n\xff\xfe", "expected a table"),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "not UTF-8"),
        (HEADER + "0,1\n", "delimiter|columns"),
        (HEADER + ROWS + "0.3,1\n0.4,1,2\n", "line 5 has 2 columns, expected 3"),
        (HEADER + ROWS + "0.3,1,2,3\n0.4,1,2\n", "line 5 has 4 columns, expected 3"),
        (HEADER + "0.0,0.5,1\n0.1,x,2\n", r"line 3, column 'leg1\.slider\.position \[m\]' is 'x'"),
        (HEADER + "0.0,0.5,1\n0.1,,2\n", r"'leg1\.slider\.position \[m\]' is blank at sample 1"),
        (
            HEADER + "0.0,0.5,1\n0.1,nan,2\n",
            r"column 'leg1\.slider\.position \[m\]' is nan at sample 1",
        ),
        (HEADER + "0.0,0.5,inf\n0.1,1,2\n", "is inf at sample 0"),
        (
            HEADER + "0.0,0.5,1\n0.2,1,2\n0.1,1,2\n",
            r"column 'time \[s\]' is 0.1 s, 0.1 s earlier than.*at sample 2",
        ),
        (HEADER + "0.0,0.5,1\n0.0,1,2\n", "the same as the sample before it at sample 1"),
        (HEADER.replace(" [m]", "") + ROWS, r"'leg1\.slider\.position' has no unit"),
        (HEADER.replace("[m]", "[]") + ROWS, "has no unit"),
        (HEADER.replace("[A]", "[furlong]") + ROWS, "unit 'furlong' is not known"),
        (HEADER.replace("[A]", "[N]") + ROWS, "current is expected in A or V or 1"),
        (
            HEADER.replace("current [A]", "effort [N m]") + ROWS,
            "moves in m but its effort is in N m",
        ),
        (HEADER.replace("time [s]", "time [m]") + ROWS, "measures length"),
        (HEADER.replace("time [s]", "clock") + ROWS, r"no column like 'time \[s\]'"),
        ("time [s],a.effort [N]\n0,1\n1,2\n", r"no column like 'leg1\.slider\.position \[m\]'"),
        ("t,q\n0,1\n1,2\n", "description file"),
        ("time [s],a.position [m],b.effort [N]\n0,1,2\n1,2,3\n", "joint 'a' has no effort"),
        (
            "time [s],a.position [m],b.effort [N],a.effort [N]\n0,1,2,3\n1,2,3,4\n",
            "'b' has no position",
        ),
        ("time [s],a.position [m],a.position [mm]\n0,1,2\n1,2,3\n", "twice"),
        ("time [s],a.position [m],a.position [m]\n0,1,2\n1,2,3\n", "more than one column is named"),
        ("# gough-recording 2 {}\n" + HEADER + ROWS, "version 2"),
        ("# gough-recording 1 {oops\n" + HEADER + ROWS, "damaged"),
        ('# gough-recording 1 {"period_samples": "4"}\n' + HEADER + ROWS, "period_samples is '4'"),
        ((HEADER + ROWS).replace(",", ";").replace("0.5", "0,5"), "decimal"),
    ],
)
def test_bad_text_is_refused_with_a_reason(tmp_path, text: str | bytes, words: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(InvalidRecording, match=words) as caught:
        read_recording(path)
    assert "run.csv" in str(caught.value)
    with pytest.raises(InvalidRecording, match=words):
        list(open_recording(path).blocks(2))


def test_a_time_that_turns_back_at_a_block_border_is_found(tmp_path) -> None:
    times = [*range(20), 18.5, *range(20, 30)]
    path = write(tmp_path, HEADER + "".join(f"{t},1,2\n" for t in times))
    with pytest.raises(InvalidRecording, match=r"0\.5 s earlier than.*sample 20"):
        list(open_recording(path).blocks(20))
    with pytest.raises(InvalidRecording, match=r"0\.5 s earlier than.*sample 20"):
        read_recording(path)


@pytest.mark.parametrize("name", ["a.npz", "a.mat", "a.parquet", "a.csv.gz"])
def test_garbage_with_a_known_suffix_is_refused_by_name(tmp_path, name: str) -> None:
    with pytest.raises(InvalidRecording, match=r"a\."):
        read_recording(write(tmp_path, bytes(range(256)) * 20, name))
    with pytest.raises(InvalidRecording, match=r"a\."):
        read_recording(write(tmp_path, b"", name))


def test_missing_files_and_bare_folders_are_refused(tmp_path) -> None:
    for name in ("no.csv", "no.npz", "no.mat", "no.parquet"):
        with pytest.raises(InvalidRecording, match="there is no file"):
            read_recording(tmp_path / name)
    with pytest.raises(InvalidRecording, match="folder"):
        read_recording(tmp_path)


def test_a_damaged_own_npz_is_refused(tmp_path) -> None:
    path = full().save(tmp_path / "run.npz")
    data = path.read_bytes()
    with pytest.raises(InvalidRecording, match="NPZ"):
        read_recording(write(tmp_path, data[: len(data) // 2], "half.npz"))
    with np.load(path) as arrays:
        content = dict(arrays)
    for change in (
        {"effort": content["effort"][:3]},
        {"time": np.tile(content["time"][:, None], 2)},
        {"facts": np.array("{}")},
        {"facts": np.array("no")},
    ):
        np.savez(tmp_path / "bad.npz", **(content | change))
        with pytest.raises(InvalidRecording, match=r"bad\.npz"):
            read_recording(tmp_path / "bad.npz")
    del content["position"]
    np.savez(tmp_path / "bad.npz", **content)
    with pytest.raises(InvalidRecording, match="position"):
        read_recording(tmp_path / "bad.npz")


def test_npz_with_objects_is_refused(tmp_path) -> None:
    np.savez(tmp_path / "run.npz", x=np.array([{}], dtype=object))
    with pytest.raises(InvalidRecording, match="NPZ"):
        read_recording(tmp_path / "run.npz")


MAT = """
format = 1
joints = ["leg1.slider", "leg2.slider"]
payload = "ball"
[time]
columns = ["t"]
units = ["ms"]
[position]
columns = ["q[1]", "q[2]"]
units = ["mm", "m"]
[current]
columns = ["i1", "i2"]
unit = "A"
scale = [2.0, -1.0]
"""


def mat(folder, **changes: object):
    data = {
        "t": np.arange(30.0) + 7,
        "q": np.arange(60.0).reshape(30, 2),
        "i1": np.ones(30),
        "i2": np.ones(30),
        "gain": 3.0,
        "note": "text",
    }
    savemat(folder / "run.mat", data | changes)
    return folder / "run.mat"


def test_a_matlab_file_is_read_by_its_description(tmp_path) -> None:
    recording = read_recording(mat(tmp_path), write(tmp_path, MAT, "d.toml"))
    assert recording.payload == "ball"
    assert np.allclose(recording.time, np.arange(30) / 1000)
    assert np.allclose(recording.position[3], [6e-3, 7.0])
    assert np.array_equal(recording.current[0], [2.0, -1.0])
    parts = list(open_recording(mat(tmp_path), tmp_path / "d.toml").blocks(8))
    assert np.allclose(np.concatenate([p.time for p in parts]), recording.time)


def mat73(path) -> None:
    """Write what MATLAB's save -v7.3 writes: HDF5 behind a header, matrices transposed, text as
    numbers.
    """
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w", userblock_size=512) as data:
        for name, value in (
            ("t", np.arange(30.0)[None] + 7),
            ("q", np.arange(60.0).reshape(30, 2).T),
            ("i1", np.ones((1, 30))),
            ("i2", np.ones((1, 30))),
            ("gain", np.full((1, 1), 3.0)),
            ("note", np.array([[116], [120]], np.uint16)),
        ):
            data[name] = value
            data[name].attrs["MATLAB_class"] = np.bytes_("char" if name == "note" else "double")
        data.create_group("#refs#")
    with open(path, "r+b") as handle:
        handle.write(
            b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(116) + bytes(8) + b"\x00\x02IM"
        )


def test_a_matlab_file_of_version_7_3_reads_the_same(tmp_path) -> None:
    write(tmp_path, MAT, "d.toml")
    expected = read_recording(mat(tmp_path), tmp_path / "d.toml")
    mat73(tmp_path / "new.mat")
    found = read_recording(tmp_path / "new.mat", tmp_path / "d.toml")
    for name in ("time", "position", "current"):
        assert np.array_equal(getattr(found, name), getattr(expected, name))
    with pytest.raises(InvalidRecording, match="column 'note' holds"):
        read_recording(
            tmp_path / "new.mat", write(tmp_path, MAT.replace('"i1"', '"note"'), "e.toml")
        )
    (tmp_path / "new.mat").write_bytes((tmp_path / "new.mat").read_bytes()[:700])
    with pytest.raises(InvalidRecording, match=r"new\.mat cannot be read"):
        read_recording(tmp_path / "new.mat", tmp_path / "d.toml")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"i1"', '"i3"', "no column 'i3'; did you mean 'i2'"),
        ('"i1"', '"gain"', "column 'gain' has 1 samples, its time 30"),
        ('unit = "A"', "", "unit is missing"),
        ('unit = "A"', 'unit = "A"\nunits = ["A", "A"]', "given twice"),
        ('unit = "A"', 'unit = "mile"', "unit 'mile' is not known"),
        ('unit = "A"', 'unit = "kg"', "measures mass"),
        ("[2.0, -1.0]", "[2.0]", "one for each of 2 columns"),
        ("[2.0, -1.0]", "0", "scale"),
        ("scale", "scalle", "key 'scalle' is not known; did you mean 'scale'"),
        ("format = 1", "format = 2", "format is 2"),
        ('["t"]', '"t"', "expected a list"),
        ('["ms"]', '["ms", "s"]', "1 columns but 2 units"),
        ("[time]", "[position.time]", "no time base|cannot read"),
        ('"leg2.slider"]', '"leg1.slider"]', "repeat"),
        ('payload = "ball"', "period_samples = 1", "whole number from 2"),
        ('payload = "ball"', 'period = "1 ms"\nperiod_samples = 4', "not both"),
        ('payload = "ball"', "period = 3.0", "unit is missing"),
        ('payload = "ball"', 'period = "3.4567 ms"', "expected a whole number"),
        ('payload = "ball"', 'decimal = ";"', "decimal"),
        ("joints =", "joints =,", "cannot read the description"),
        (
            'columns = ["i1", "i2"]',
            'columns = ["i1", "i2"]\nfile = "../x.mat"',
            "inside the folder",
        ),
        (
            'columns = ["i1", "i2"]',
            'columns = ["i1", "i2"]\nfile = "x.mat"',
            "name all files or none",
        ),
        ('columns = ["i1", "i2"]', 'columns = ["i1", "i2"]\nnames = ["a", "b"]', "leave names out"),
        (
            'columns = ["i1", "i2"]',
            'columns = ["i1", "i2"]\ninterpolation = "quintic"',
            "interpolation",
        ),
    ],
)
def test_a_bad_description_is_refused_with_a_reason(
    tmp_path, old: str, new: str, words: str
) -> None:
    assert old in MAT
    path = write(tmp_path, MAT.replace(old, new), "d.toml")
    with pytest.raises(InvalidRecording, match=words):
        read_recording(mat(tmp_path), path)


def test_period_in_seconds_becomes_samples(tmp_path) -> None:
    path = write(tmp_path, MAT.replace('payload = "ball"', 'period = "10 ms"'), "d.toml")
    assert read_recording(mat(tmp_path), path).period_samples == 10


def test_decimal_commas_are_read_when_described(tmp_path) -> None:
    text = (
        MAT.replace("format = 1", 'format = 1\ndecimal = ","')
        .replace("q[1]", "a")
        .replace("q[2]", "b")
    )
    data = "t;a;b;i1;i2\n0;1,5;2;3;4\n1;2,5;2;3;4\n"
    recording = read_recording(write(tmp_path, data, "run.txt"), write(tmp_path, text, "d.toml"))
    assert np.allclose(recording.position[:, 0], [1.5e-3, 2.5e-3])


def test_columns_without_names_are_counted_from_one_and_savetxt_headers_are_read(tmp_path) -> None:
    values = np.column_stack([np.arange(5.0), np.arange(5.0) ** 2, np.ones(5)])
    np.savetxt(tmp_path / "named.txt", values, header="time[s] a.position[m] a.effort[N]")
    assert np.array_equal(read_recording(tmp_path / "named.txt").position[:, 0], values[:, 1])
    np.savetxt(tmp_path / "bare.txt", values)
    described = write(
        tmp_path,
        'format = 1\njoints = ["a"]\n[time]\ncolumns = [1]\nunits = ["s"]\n'
        '[position]\ncolumns = [2]\nunit = "m"\n',
        "d.toml",
    )
    assert np.array_equal(
        read_recording(tmp_path / "bare.txt", described).position[:, 0], values[:, 1]
    )


def test_a_delimiter_at_the_end_of_each_line_is_no_column(tmp_path) -> None:
    text = "".join(line + ",\n" for line in (HEADER + ROWS).splitlines())
    assert len(read_recording(write(tmp_path, text))) == 3
    assert (
        len(
            read_recording(
                write(tmp_path, HEADER + "".join(line + ",\n" for line in ROWS.splitlines()))
            )
        )
        == 3
    )
    text = "".join(line.replace(",", " ") + " 7\n" for line in ROWS.splitlines())
    assert len(read_recording(write(tmp_path, f"# {HEADER.replace(',', ' ')}{text}"))) == 3


def test_parquet_is_read_whole_and_in_blocks(tmp_path) -> None:
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pandas.DataFrame(
        {
            "time [s]": np.arange(20) / 10,
            "a.position [mm]": np.arange(20),
            "a.effort [N]": 1.0,
            "comment": "x",
        }
    )
    frame.to_parquet(tmp_path / "run.parquet")
    recording = read_recording(tmp_path / "run.parquet")
    assert np.allclose(recording.position[:, 0], np.arange(20) / 1000)
    assert sum(len(b) for b in open_recording(tmp_path / "run.parquet").blocks(6)) == 20
    frame.loc[4, "a.effort [N]"] = np.nan
    frame.to_parquet(tmp_path / "run.parquet")
    with pytest.raises(InvalidRecording, match=r"'a\.effort \[N\]' is nan at sample 4"):
        read_recording(tmp_path / "run.parquet")


@pytest.mark.parametrize(
    ("module", "extra", "name"),
    [
        ("pyarrow", "parquet", "run.parquet"),
        ("h5py", "hdf5", "run.h5"),
        ("rosbags.highlevel", "ros", "run.bag"),
    ],
)
def test_without_its_library_a_format_says_what_to_install(
    tmp_path, monkeypatch, module, extra, name
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(InvalidInput, match=rf"pip install 'gough\[{extra}\]'"):
        read_recording(write(tmp_path, b"PAR1", name))


FOLDER = """
format = 1
joints = ["a"]
[time]
columns = ["sec", "nsec"]
units = ["s", "ns"]
[position]
file = "q.txt"
columns = ["q"]
unit = "m"
[effort]
file = "f.txt"
columns = ["f"]
unit = "N"
"""


def folder(path, start: float = 0.004, rate: float = 100.0):
    """Positions q = t^2 at 100 Hz and efforts f = 5 t on a clock of their own, stamped in seconds
    since 1970.
    """
    clocks = {"q": np.arange(0.0, 4.0, 0.01), "f": start + np.arange(0.0, 4.0, 1 / rate)}
    for name, clock in clocks.items():
        nanoseconds = np.round(clock * 1e9).astype(int) + 999_000_000
        value = clock**2 if name == "q" else 5 * clock
        lines = [
            f"{1_612_171_816 + n // 10**9}\t{n % 10**9}\t{v!r}\n"
            for n, v in zip(nanoseconds.tolist(), value.tolist())
        ]
        data = (f"sec\tnsec\t{name}\n" + "".join(lines)).encode()
        (path / f"{name}.txt.gz").write_bytes(gzip.compress(data))
    return path


def test_files_with_their_own_clocks_meet_on_the_clock_of_the_positions(tmp_path) -> None:
    recording = read_recording(folder(tmp_path), write(tmp_path, FOLDER, "d.toml"))
    assert recording.time[0] == 0.0
    assert np.allclose(np.diff(recording.time), 0.01, atol=1e-9)
    # The first position after the efforts start is the second; effort is linear in time, so
    # interpolation is exact.
    assert np.allclose(recording.position[:, 0], (recording.time + 0.01) ** 2, atol=1e-8)
    assert np.allclose(recording.effort[:, 0], 5 * (recording.time + 0.01), atol=1e-7)
    clock = next(f for f in recording.notices if f.rule == "clock")
    assert clock.where == "f.txt.gz"
    assert clock.numbers["start"] == pytest.approx(0.004, abs=1e-7)


def test_an_even_clock_an_offset_and_holding_are_done_when_described(tmp_path) -> None:
    text = FOLDER.replace("format = 1", 'format = 1\nrate = "50 Hz"\nperiod = "1 s"')
    recording = read_recording(folder(tmp_path), write(tmp_path, text, "d.toml"))
    assert recording.rate == pytest.approx(50.0)
    assert recording.period_samples == 50
    assert np.allclose(recording.effort[:, 0], 5 * (recording.time + 0.004), atol=1e-7)
    shifted = (
        text + '[effort.time]\ncolumns = ["sec", "nsec"]\nunits = ["s", "ns"]\noffset = "-4 ms"\n'
    )
    recording = read_recording(tmp_path, write(tmp_path, shifted, "d.toml"))
    assert np.allclose(recording.effort[:, 0], 5 * (recording.time + 0.004), atol=1e-7)
    assert np.allclose(
        recording.position[:, 0], recording.time**2, atol=1e-6
    )  # both clocks now start together
    held = FOLDER + 'interpolation = "previous"\n'
    recording = read_recording(tmp_path, write(tmp_path, held, "d.toml"))
    assert np.allclose(recording.effort[:, 0], 5 * (recording.time + 0.004), atol=1e-7)


def test_clocks_of_different_rates_are_reported_in_parts_per_million(tmp_path) -> None:
    recording = read_recording(folder(tmp_path, rate=100.05), write(tmp_path, FOLDER, "d.toml"))
    found = next(f for f in recording.notices if f.rule == "clock")
    assert found.numbers["rate_ratio"] == pytest.approx(500e-6, rel=0.05)


def test_efforts_are_not_invented_where_their_file_has_none(tmp_path) -> None:
    path = write(tmp_path, FOLDER, "d.toml")
    with gzip.open(folder(tmp_path) / "f.txt.gz", "rt") as handle:
        lines = handle.readlines()
    (tmp_path / "f.txt.gz").write_bytes(gzip.compress("".join(lines[:201] + lines[301:]).encode()))
    with pytest.raises(
        InvalidRecording, match=r"f\.txt\.gz: no samples for 1\.01 s after sample 199"
    ):
        read_recording(tmp_path, path)


def test_runs_that_share_no_time_and_missing_files_are_refused(tmp_path) -> None:
    path = write(tmp_path, FOLDER, "d.toml")
    with pytest.raises(InvalidRecording, match="have no time in common"):
        read_recording(folder(tmp_path, start=100.0), path)
    (tmp_path / "f.txt.gz").unlink()
    with pytest.raises(InvalidRecording, match=r"no file 'f\.txt'"):
        read_recording(tmp_path, path)
    with pytest.raises(InvalidRecording, match="read_recording"):
        open_recording(tmp_path, path)
    with pytest.raises(InvalidRecording, match="names no files"):
        read_recording(tmp_path, write(tmp_path, MAT, "e.toml"))


@settings(max_examples=40, deadline=None)
@given(st.binary(max_size=400))
def test_any_bytes_give_a_recording_or_a_clear_error(tmp_path_factory, data: bytes) -> None:
    path = write(tmp_path_factory.mktemp("x"), data)
    with pytest.raises(InvalidRecording):
        read_recording(path)


@settings(max_examples=40, deadline=None)
@given(st.text(max_size=300))
def test_any_text_as_description_gives_a_clear_error(tmp_path_factory, text: str) -> None:
    with pytest.raises(InvalidRecording):
        load_description(
            write(tmp_path_factory.mktemp("x"), text.encode("utf-8", "surrogatepass"), "d.toml")
        )


def test_start_and_stop_of_a_description_cut_the_log_at_both_ends(tmp_path) -> None:
    write(tmp_path, "time,a,b\n" + "".join(f"{k / 10},{k},1\n" for k in range(21)))
    description = write(
        tmp_path,
        'format = 1\njoints = ["arm"]\nstart = "0.5 s"\nstop = "1.2 s"\n[time]\n'
        'columns = ["time"]\nunits = ["s"]\n[position]\ncolumns = ["a"]\nunits = ["rad"]\n'
        '[effort]\ncolumns = ["b"]\nunits = ["N m"]\n',
        "run.toml",
    )
    log = read_recording(tmp_path / "run.csv", description)
    np.testing.assert_allclose(log.position[:, 0], np.arange(5, 13))
    np.testing.assert_allclose(log.time, np.arange(8) / 10, atol=1e-12)
