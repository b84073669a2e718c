"""Files that cost too much or reach too far: each is refused by name, soon, and in little memory."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import struct
import tracemalloc
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import gough
from gough.app.studies.fleet_file import read_fleet_file
from gough.app.studies.study_file import read_study
from gough.core.errors import GoughError, InvalidMechanism, InvalidRecording, InvalidStudy
from gough.core.files import FREE_UNPACKED_BYTES, MAX_OBJECTS, Budget, read_bytes
from gough.core.trajectory import Fourier, load_trajectory
from gough.fitting.log_statistics import load_log_statistics
from gough.fleets.fleet import FleetSettings
from gough.formats import robot_description
from gough.formats.read import read_tree
from gough.formats.robot_description import describe
from gough.formats.urdf_sidecar import read_yaml
from gough.identification.result import load_identification
from gough.logs.description import load_description
from gough.logs.readers import read_recording
from gough.logs.survey import Motor, survey
from gough.mechanism import load_robot

MOST_MEMORY = 2 * FREE_UNPACKED_BYTES


@contextmanager
def little_memory() -> Iterator[None]:
    """Fail if more than a few hundred megabytes are used at a time."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < MOST_MEMORY
    finally:
        tracemalloc.stop()


def matlab_element(kind: int, content: bytes) -> bytes:
    return struct.pack("<II", kind, len(content)) + content + b"\0" * (-len(content) % 8)


def matlab_bomb(path: Path, zeros: int) -> None:
    """Write a MATLAB file with one compressed variable of many zeros of one byte each."""
    flags = matlab_element(6, struct.pack("<II", 9, 0))
    shape = matlab_element(5, struct.pack("<ii", zeros, 1))
    inner = flags + shape + matlab_element(1, b"q")
    length = len(inner) + 8 + zeros
    packer = zlib.compressobj(9)
    packed = packer.compress(struct.pack("<II", 14, length) + inner + struct.pack("<II", 2, zeros))
    block = bytes(2**20)
    for _ in range(zeros // 2**20):
        packed += packer.compress(block)
    packed += packer.flush()
    head = b" " * 124 + b"\x00\x01IM"
    path.write_bytes(head + struct.pack("<II", 15, len(packed)) + packed)


def test_a_matlab_file_that_unpacks_to_gigabytes_is_refused(tmp_path: Path) -> None:
    matlab_bomb(tmp_path / "a.mat", 2**26)  # 64 MiB of bytes, 512 MiB of numbers
    with little_memory(), pytest.raises(InvalidRecording, match=r"a\.mat.*unpacks to more than"):
        read_recording(tmp_path / "a.mat")


def test_a_gzipped_table_that_unpacks_without_end_is_refused(tmp_path: Path) -> None:
    line = b"0," + b"0" * 2**14 + b"\n"
    members = gzip.compress(b"time [s],a.position [rad]\n") + gzip.compress(line * 2**10) * 40
    (tmp_path / "a.csv.gz").write_bytes(members)
    with pytest.raises(InvalidRecording, match=r"a\.csv\.gz.*unpacks to more than"):
        read_recording(tmp_path / "a.csv.gz")


def test_an_npz_file_that_unpacks_to_gigabytes_is_refused(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "a.npz", q=np.zeros(2**26, dtype=np.int8))
    with little_memory(), pytest.raises(InvalidRecording, match=r"a\.npz.*unpacks to more than"):
        read_recording(tmp_path / "a.npz")


@pytest.fixture
def h5py():
    return pytest.importorskip("h5py")


def test_links_that_lead_back_to_their_groups_are_followed_once(h5py, tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["time"] = np.arange(9.0)
        for name in "abcd":
            file[name] = h5py.SoftLink("/")
            file.create_group(f"hard{name}")[name] = file["/"]
    found = survey(tmp_path / "a.h5")
    assert [column.name for column in found.columns] == ["time"]
    assert "a link to a group that was read already" in found.unread.values()


def test_numbers_of_other_files_are_not_read(h5py, tmp_path: Path) -> None:
    secret = np.full(8, 7.0)
    (tmp_path / "secret").write_bytes(secret.tobytes())
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["q"] = secret
    layout = h5py.VirtualLayout(shape=(8,), dtype="f8")
    layout[:] = h5py.VirtualSource(str(tmp_path / "other.h5"), "q", shape=(8,))
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["time"] = np.arange(8.0)
        file.create_dataset("raw", (8,), "f8", external=[(str(tmp_path / "secret"), 0, 64)])
        file["linked"] = h5py.ExternalLink(str(tmp_path / "other.h5"), "/q")
        file.create_virtual_dataset("virtual", layout)
    found = survey(tmp_path / "a.h5")
    assert [column.name for column in found.columns] == ["time"]
    assert set(found.unread) == {"raw", "linked", "virtual"}


def test_an_hdf5_file_that_unpacks_to_gigabytes_is_refused(h5py, tmp_path: Path) -> None:
    with h5py.File(tmp_path / "sum.h5", "w") as file:
        for k in range(5):
            file.create_dataset(f"q{k}", (2**23,), "f8", chunks=(2**14,))
    with h5py.File(tmp_path / "bytes.h5", "w") as file:
        file.create_dataset("q", (2**26,), "i1", chunks=(2**14,))
    with h5py.File(tmp_path / "chunk.h5", "w") as file:
        file.create_dataset("q", (10,), "f8", chunks=(2**26,), maxshape=(None,))
    for name in ("sum.h5", "bytes.h5", "chunk.h5"):
        with little_memory(), pytest.raises(InvalidRecording, match=rf"{name}.*unpacks to more"):
            read_recording(tmp_path / name)


def test_a_parquet_file_that_unpacks_to_gigabytes_is_refused(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = pyarrow.table({"q": np.zeros(2**22), "r": np.zeros(2**22, dtype=np.int8)})
    with parquet.ParquetWriter(tmp_path / "a.parquet", table.schema) as writer:
        for _ in range(6):
            writer.write_table(table)
    with pytest.raises(InvalidRecording, match=r"a\.parquet.*unpacks to more than"):
        read_recording(tmp_path / "a.parquet")


def test_a_log_of_very_many_columns_is_refused(tmp_path: Path) -> None:
    line = ",".join(["0"] * 100_001)
    (tmp_path / "a.csv").write_text(f"{line}\n{line}\n{line}\n")
    with pytest.raises(InvalidRecording, match=r"a\.csv: more than 100000 columns"):
        read_recording(tmp_path / "a.csv")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes")
@pytest.mark.parametrize(
    "read", [read_recording, load_robot, load_trajectory, load_description, read_study]
)
def test_pipes_and_devices_are_not_read(read, tmp_path: Path) -> None:
    pipe = tmp_path / "a.toml"
    os.mkfifo(pipe)
    for path in (pipe, Path("/dev/zero")):
        with pytest.raises(GoughError, match=re.escape(str(path))):
            read(path)


@pytest.mark.parametrize(
    "read",
    [
        read_recording,
        load_robot,
        load_trajectory,
        load_description,
        read_study,
        load_identification,
        load_log_statistics,
        lambda path: read_fleet_file(path, FleetSettings()),
        survey,
    ],
)
def test_a_path_with_a_zero_byte_is_refused(read) -> None:
    with pytest.raises(GoughError, match="a"):
        read("a\0b.toml")


BOMBS = {
    "alias": "a: &-a [x]\nb: *-a\n",
    "aliases": "a0: &-a [x, x]\n"
    + "".join(f"a{k}: &-{chr(97 + k)} [*-{chr(96 + k)}, *-{chr(96 + k)}]\n" for k in range(1, 26)),
    "quoted": 'closed_loop: [&"b" x, *"b"]\n',
    "merge": "a: &a {x: 1}\nb: {<<: *a}\n",
}


@pytest.mark.parametrize("text", BOMBS.values(), ids=BOMBS)
def test_aliases_in_yaml_are_refused(text) -> None:
    with pytest.raises(InvalidMechanism, match=r"a\.yaml: not valid YAML: .*(alias|expected)"):
        read_yaml(text, "a.yaml")


def test_yaml_has_no_sexagesimal_numbers() -> None:
    content = read_yaml("home: {a: 1:30, b: 190:20:30.5, c: 2, d: -1.5e3, e: 010}", "a.yaml")
    assert content["home"] == {"a": "1:30", "b": "190:20:30.5", "c": 2, "d": -1500.0, "e": 10}
    long = "1" + ":59" * 20_000
    assert read_yaml(f"home: {{a: {long}}}", "a.yaml") == {"home": {"a": long}}


SIDECARS = {
    "name": "name_mot: [[a, b]]",
    "number": "name_mot: [1]",
    "key": "home: {[a, b]: 1}",
    "large": "home: {joint1: " + "9" * 399 + "}",
    "joint": "joint_name: [[a]]\njoint_type: [FIXED]",
    "frames": "closed_loop: [[[a], {b: c}]]",
    "time": "home: {joint1: 1:30}",
    "date": "gravity: [2024-01-01, 0, 0]",
    "deep": "closed_loop: " + "[" * 3000 + "]" * 3000,
}


@pytest.mark.parametrize("text", SIDECARS.values(), ids=SIDECARS)
def test_wrong_types_in_yaml_are_refused_by_name(text, tmp_path: Path) -> None:
    links = "".join(f'<link name="l{k}"/>' for k in range(2))
    joint = '<joint name="joint1" type="revolute"><parent link="l0"/><child link="l1"/></joint>'
    (tmp_path / "a.urdf").write_text(f'<robot name="r">{links}{joint}</robot>')
    (tmp_path / "a.yaml").write_text(text)
    with pytest.raises(InvalidMechanism, match=r"a\.(urdf|yaml)"):
        load_robot(tmp_path / "a.urdf")


def test_a_trajectory_of_huge_numbers_is_refused(tmp_path: Path) -> None:
    trajectory = Fourier(
        coordinates=("a",),
        units=("rad",),
        frequency=1.0,
        offset=np.zeros(1),
        mu=np.ones((2, 1)),
        nu=np.ones((2, 1)),
    )
    trajectory.save(tmp_path / "t.json")
    text = (tmp_path / "t.json").read_text()
    (tmp_path / "t.json").write_text(re.sub(r"1\.0\b", "1" + "0" * 380, text))
    with pytest.raises(GoughError, match=r"t\.json"):
        load_trajectory(tmp_path / "t.json")


def fleet(folder: Path, table: bytes, zone: str = "Europe/Berlin") -> str:
    (folder / "logs.csv").write_bytes(table)
    text = f'format = 1\nrobot = "five_bar"\nlogs = "logs.csv"\nzone = {json.dumps(zone)}\n'
    (folder / "fleet.toml").write_text(text)
    return str(folder / "fleet.toml")


LINE = b"log,robot,time\nr.csv,M\xfcller,2024-01-01T00:00:00\n"


def test_a_fleet_table_of_windows_is_read(tmp_path: Path) -> None:
    found = read_fleet_file(fleet(tmp_path, LINE), FleetSettings())
    assert found.logs[0].robot == "Müller"


@pytest.mark.parametrize("zone", ["Europe", "../passwd", "a\0b", "", "Nowhere/At all"])
def test_what_is_no_time_zone_is_refused(zone, tmp_path: Path) -> None:
    with pytest.raises(InvalidStudy, match=r"fleet\.toml: zone is"):
        read_fleet_file(fleet(tmp_path, LINE, zone), FleetSettings())


@pytest.mark.parametrize("table", [b'log,robot,time\n"' + b"x" * 140_000 + b'",a,b\n', b"\0\0\xff"])
def test_a_fleet_table_that_cannot_be_read_is_refused_by_name(table, tmp_path: Path) -> None:
    with pytest.raises(GoughError, match=r"logs\.csv"):
        read_fleet_file(fleet(tmp_path, table), FleetSettings())


def test_damaged_arrays_of_a_result_are_refused_by_name(tmp_path: Path) -> None:
    stored = {"format": gough.identification.result.RESULT_FORMAT, "stored": {"fits": [{}]}}
    (tmp_path / "estimate.json").write_text(json.dumps(stored))
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **{"0.time": np.arange(1000.0)})
    content = bytearray(buffer.getvalue())
    for at in range(60, len(content) - 60, 40):
        damaged = bytearray(content)
        damaged[at : at + 8] = b"\xff" * 8
        (tmp_path / "fits.npz").write_bytes(bytes(damaged))
        with pytest.raises(GoughError, match=re.escape(str(tmp_path))):
            load_identification(tmp_path)
        (tmp_path / "factor.npz").write_bytes(bytes(damaged))
        with pytest.raises(GoughError, match=r"factor\.npz"):
            load_log_statistics(tmp_path / "factor.npz")


def test_arrays_of_a_result_that_unpack_to_gigabytes_are_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", bytes(300 * 2**20))
    with little_memory(), pytest.raises(GoughError, match=r"a\.npz.*unpacks to more than"):
        load_log_statistics(tmp_path / "a.npz")


def test_a_file_that_takes_too_long_is_refused(monkeypatch) -> None:
    monkeypatch.setattr("gough.core.files.READING_SECONDS", -1.0)
    budget = Budget("a.mat", 0, InvalidRecording)
    with pytest.raises(InvalidRecording, match=r"a\.mat: reading takes too long"):
        budget.take_object(0)
    Budget("a.csv", 0, InvalidRecording, streamed=True).take_bytes(1)


def test_structures_without_end_are_refused() -> None:
    budget = Budget("a.mat", 0)
    with pytest.raises(GoughError, match=r"a\.mat: structures are nested"):
        budget.take_object(1000)
    for _ in range(MAX_OBJECTS - 1):
        budget.take_object(0)
    with pytest.raises(GoughError, match=r"a\.mat: more than"):
        budget.take_object(0)


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "a.toml").open("wb") as stream:
        stream.truncate(10**9)  # a hole: takes no room
    for read in (load_trajectory, load_description, read_study):
        with pytest.raises(GoughError, match=r"a\.toml.*too large"):
            read(tmp_path / "a.toml")
    with pytest.raises(GoughError, match="is a folder"):
        read_bytes(tmp_path, 10)


def test_a_long_chain_is_read_in_a_time_that_grows_with_its_length(monkeypatch) -> None:
    links = ['<link name="l0"/>']
    for k in range(400):
        links.append(
            f'<link name="l{k + 1}"/><joint name="j{k}" type="revolute"><parent link="l{k}"/>'
            f'<child link="l{k + 1}"/></joint>'
        )
    tree = read_tree(f'<robot name="r">{"".join(links)}</robot>', "a.urdf")
    visits = 0
    transform_inertia = robot_description.transform_inertia

    def counted(*words):
        nonlocal visits
        visits += 1
        return transform_inertia(*words)

    class Listed(tuple):
        """The links of a tree; counts how often one is visited."""

        def __iter__(self):
            nonlocal visits
            for link in tuple.__iter__(self):
                visits += 1
                yield link

    monkeypatch.setattr(robot_description, "transform_inertia", counted)
    described = describe(replace(tree, links=Listed(tree.links)), "a.urdf")
    assert "j399" in described.coordinates
    assert visits < 20 * len(tree.links)


def test_a_survey_of_very_many_channels_compares_names_alone(monkeypatch, tmp_path: Path) -> None:
    names = ["time"]
    names += [f"pos{k}" for k in range(40)]
    names += [f"tau{k}" for k in range(40)]
    table = np.random.default_rng(1).standard_normal((60, 81))
    table[:, 0] = np.arange(60) / 100
    header = ",".join(names)
    np.savetxt(tmp_path / "a.csv", table, delimiter=",", header=header, comments="")
    monkeypatch.setattr("gough.logs.survey.MAX_COMPARED_NUMBERS", 1e4)
    monkeypatch.setattr("gough.logs.survey.explained_fraction", None)
    found = survey(tmp_path / "a.csv", [Motor(f"motor{k}", "rad") for k in range(40)])
    assert found.proposal["effort"][7][0] == "tau7"
