"""Files of other programs, written by their own libraries, hold the run of test_doors."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import h5py
import numpy as np
import openpyxl
import pytest
from mcap.writer import CompressionType, Writer
from test_doors import EFFORT, JOINTS, POSITION, TIME, described, is_the_run
from vendor_files import (
    VENDOR_DOORS,
    as_json_lines,
    as_lerobot,
    as_mcap_of_json,
    as_rsi,
    as_tdms,
    as_ulog,
)

from gough.core.errors import InvalidInput, InvalidRecording
from gough.logs.description import parse_description
from gough.logs.formats import LOG_FORMATS, log_formats_text
from gough.logs.readers import read_recording
from gough.logs.survey import Motor, survey

MOTORS = [Motor(name="left.motor", unit="rad"), Motor(name="right.motor", unit="rad")]


def log_in(folder: Path) -> Path:
    (path,) = folder.iterdir()
    return path


@pytest.mark.parametrize("write", VENDOR_DOORS, ids=lambda write: write.__name__)
def test_a_file_of_a_vendors_library_is_read(write, tmp_path: Path) -> None:
    description = write(tmp_path)
    is_the_run(read_recording(log_in(tmp_path), description))


@pytest.mark.parametrize("write", VENDOR_DOORS, ids=lambda write: write.__name__)
def test_a_survey_finds_the_clock_of_a_vendors_file(write, tmp_path: Path) -> None:
    description = write(tmp_path)
    found = survey(log_in(tmp_path), MOTORS)
    column = found.column(description["position"]["columns"][0])
    assert column.clock == description["time"]["columns"][0]
    assert found.column(column.clock).rate == pytest.approx(100.0, rel=1e-6)


@pytest.mark.parametrize(
    ("module", "suffix", "extra"),
    [
        ("openpyxl", ".xlsx", "xlsx"),
        ("nptdms", ".tdms", "tdms"),
        ("mcap", ".mcap", "mcap"),
        ("pyulog", ".ulg", "ulog"),
    ],
)
def test_a_missing_library_is_named_with_the_extra(
    module, suffix, extra, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    (tmp_path / f"run{suffix}").write_bytes(b"anything")
    with pytest.raises(InvalidInput, match=rf"needs {module}.*pip install 'gough\[{extra}\]'"):
        read_recording(tmp_path / f"run{suffix}")


def test_help_lists_every_format_of_the_registry() -> None:
    from gough.app.studies.verbs import step_type
    from gough.core.options import options_of

    for suffix in (*LOG_FORMATS, ".csv", ".gz", "LeRobot", "ROS 2"):
        assert suffix in log_formats_text()
    assert log_formats_text() in options_of(step_type("identify"))["logs"].help


def test_dates_and_errors_in_cells_of_excel(tmp_path: Path) -> None:
    from datetime import datetime, timedelta

    book = openpyxl.Workbook()
    sheet = book.active
    sheet.append(["date", "left.motor", "right.motor"])
    for k in range(20):
        date = datetime(2024, 3, 1, 10) + timedelta(milliseconds=10 * k)
        sheet.append([date, 0.5 * k, 1.0 if k else None])
    book.save(tmp_path / "run.xlsx")
    description = described("date", ["left.motor", "left.motor"], ["left.motor", "left.motor"])
    log = read_recording(tmp_path / "run.xlsx", description)
    assert np.allclose(log.time, np.arange(20) / 100, atol=2e-6)
    sheet["B7"] = "#DIV/0!"
    book.save(tmp_path / "run.xlsx")
    with pytest.raises(InvalidRecording, match=r"column 'left\.motor' is nan at sample 5"):
        read_recording(tmp_path / "run.xlsx", description)


def test_a_workbook_without_a_table_says_what_its_sheets_hold(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    book.active.append(["a", "word"])
    book.save(tmp_path / "run.xlsx")
    with pytest.raises(InvalidRecording, match=r"run\.xlsx: no sheet.*sheet 'Sheet' has no table"):
        read_recording(tmp_path / "run.xlsx")


def test_a_line_that_is_not_json_is_named_and_a_last_one_cut_short_is_dropped(tmp_path) -> None:
    description = as_json_lines(tmp_path)
    path = tmp_path / "run.jsonl"
    whole = path.read_text()
    path.write_text(whole + '{"t": 2.0, "arm": {"q": [1')
    log = read_recording(path, description)
    assert len(log) == len(TIME)
    assert "truncated" in [notice.rule for notice in log.notices]
    lines = whole.split("\n")
    path.write_text("\n".join([*lines[:7], "{", *lines[7:]]))
    with pytest.raises(InvalidRecording, match=r"run\.jsonl: line 8 is not JSON"):
        read_recording(path, description)


def test_fields_that_lines_lack_are_samples_at_other_times(tmp_path: Path) -> None:
    lines = []
    for k, t in enumerate(TIME):
        lines.append({"t": t, "q": POSITION[k].tolist(), "i": EFFORT[k].tolist()})
        if k % 2:
            lines[-1] |= {"i": [None, None]}
    (tmp_path / "run.jsonl").write_text("\n".join(json.dumps(line) for line in lines))
    log = read_recording(tmp_path / "run.jsonl", described())
    assert np.allclose(log.effort[::2], EFFORT[: len(log.effort) : 2])
    halfway = (EFFORT[0] + EFFORT[2]) / 2
    assert np.allclose(log.effort[1], halfway)


def test_topics_in_other_encodings_are_listed_as_not_read(tmp_path: Path) -> None:
    with (tmp_path / "run.mcap").open("wb") as handle:
        writer = Writer(handle, compression=CompressionType.NONE)
        writer.start(profile="", library="test")
        channel = writer.register_channel("/flat", "flatbuffer", 0)
        writer.add_message(channel, 1, b"\0" * 8, 1)
        writer.finish()
    with pytest.raises(InvalidRecording, match="'/flat' has messages in 'flatbuffer'"):
        read_recording(tmp_path / "run.mcap")


@pytest.mark.parametrize("compression", ["zstd", "lz4"])
def test_a_chunk_that_unpacks_to_more_than_it_states_is_refused(compression, tmp_path) -> None:
    import lz4.frame
    import zstandard
    from mcap.records import Chunk

    from gough.logs.mcap import _unpacked

    pack = zstandard.compress if compression == "zstd" else lz4.frame.compress
    chunk = Chunk(
        compression=compression,
        data=pack(bytes(10**6)),
        message_start_time=0,
        message_end_time=0,
        uncompressed_crc=0,
        uncompressed_size=1000,
    )
    with pytest.raises(ValueError, match="a chunk states 1000 bytes and holds others"):
        _unpacked(chunk)
    chunk.uncompressed_size = 10**6
    assert _unpacked(chunk) == bytes(10**6)


def test_an_mcap_file_that_claims_gigabytes_is_refused(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("gough.core.files.FREE_UNPACKED_BYTES", 2**12)
    monkeypatch.setattr("gough.core.files.MAX_EXPANSION", 1)
    description = as_mcap_of_json(tmp_path)
    with pytest.raises(InvalidRecording, match=r"run\.mcap: a chunk unpacks to more than"):
        read_recording(tmp_path / "run.mcap", description)


def test_xml_that_is_not_of_a_kuka_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run.xml").write_text("<mujoco><worldbody/></mujoco>")
    with pytest.raises(InvalidRecording, match=r"run\.xml: there is no <Rob>.*KUKA's RSI"):
        read_recording(tmp_path / "run.xml")
    as_rsi(tmp_path)
    text = (tmp_path / "run.xml").read_text()
    (tmp_path / "run.xml").write_text('<!DOCTYPE a [<!ENTITY b "c">]>' + text)
    with pytest.raises(InvalidRecording, match=r"run\.xml cannot be read.*"):
        read_recording(tmp_path / "run.xml")


def test_an_episode_has_to_be_named_where_there_are_several(tmp_path: Path) -> None:
    description = as_lerobot(tmp_path)
    dataset = tmp_path / "dataset"
    del description["episode"]
    with pytest.raises(InvalidRecording, match=r"3 episodes.*from 0 to 2.*episode = 0"):
        read_recording(dataset, description)
    with pytest.raises(InvalidRecording, match=r"3 episodes.*not 3"):
        read_recording(dataset, {**description, "episode": 3})
    with pytest.raises(InvalidRecording, match="episode is -1"):
        parse_description({**description, "episode": -1})
    assert "episode = 0" in survey(dataset, MOTORS).description()


def test_a_damaged_ulog_file_says_so(tmp_path: Path) -> None:
    description = as_ulog(tmp_path)
    path = tmp_path / "run.ulg"
    content = bytearray(path.read_bytes())
    content[-87:-84] = bytes(3)  # the header of a message
    path.write_bytes(bytes(content))
    notices = read_recording(path, description).notices
    assert "truncated" in [notice.rule for notice in notices]


def test_a_tdms_file_cut_short_says_so_in_a_notice(tmp_path: Path, capfd) -> None:
    description = as_tdms(tmp_path)
    path = tmp_path / "run.tdms"
    path.write_bytes(path.read_bytes()[:-400])
    description.pop("effort")  # the last channel is shorter: each has a clock of its own now
    description["time"]["columns"] = ["run/pos0 time [s]"]
    (notice,) = [n for n in read_recording(path, description).notices if n.rule == "truncated"]
    assert "less data than expected" in notice.text
    assert not capfd.readouterr().err


def test_a_counter_is_no_clock(tmp_path: Path) -> None:
    """ROS 1 counts messages in header.seq, which runs as evenly as a clock does."""
    from bags import write_bag

    path = write_bag(tmp_path, TIME, JOINTS, POSITION, EFFORT, storage="bag")
    found = survey(path, MOTORS)
    assert found.column("/joint_states/header.seq").kind != "time"
    joint = found.column("/joint_states/left.motor.position")
    assert joint.clock == "/joint_states/header.stamp"


def test_matrices_named_as_a_kind_are_not_the_same_column_twice(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "run.h5", "w") as file:
        file["robot/time"] = TIME
        file["robot/position"] = POSITION
        file["robot/effort"] = EFFORT
    with pytest.raises(InvalidRecording, match=r"there is no column like 'time \[s\]'"):
        read_recording(tmp_path / "run.h5")
    assert not survey(tmp_path / "run.h5", MOTORS).plain


@pytest.mark.parametrize(
    ("kind", "cure"),
    [
        ("table", r"table2struct\(x, 'ToScalar', true\)"),
        ("timetable", r"timetable2table.*seconds\(r - r\(1\)\)"),
    ],
)
def test_tables_of_matlab_are_refused_with_what_to_save(kind, cure, tmp_path: Path) -> None:
    from test_one_door import matlab_element

    flags = matlab_element(6, (17).to_bytes(4, "little") + bytes(4))
    body = flags
    for text in ("log", "MCOS", kind):
        body += matlab_element(1, text.encode())
    content = b" " * 124 + b"\x00\x01IM" + matlab_element(14, body)
    (tmp_path / "run.mat").write_bytes(content)
    with pytest.raises(InvalidRecording, match=rf"'log' is a {kind} of MATLAB.*{cure}"):
        read_recording(tmp_path / "run.mat")
