"""Logs by address and Parquet datasets: the same samples as from a disk, failures kept apart."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gough.app.studies.fleet_file import read_fleet_file
from gough.core.errors import InvalidRecording, StorageFault
from gough.core.executors import InProcess, WorkerFault
from gough.core.storage import StoredFile, is_address, matching_files
from gough.engine import Model
from gough.fleets.fleet import FleetSettings
from gough.fleets.history import date_of
from gough.identification.many_logs import frozen_job, sample_of
from gough.logs.datasets import dataset_parts
from gough.logs.readers import read_recording
from gough.logs.recording import Recording
from gough.logs.recording_sources import open_recording
from gough.processing import Processing
from gough.processing.many_logs import Job, collect, log_hash, log_task, statistics_of_log
from gough.virtual.fleet_logs import VirtualFleet

fsspec = pytest.importorskip("fsspec")
object_stores = pytest.importorskip("object_stores")
parquet = pytest.importorskip("pyarrow.parquet")
pyarrow_csv = pytest.importorskip("pyarrow.csv")


@pytest.fixture(scope="module")
def recording(five_bar: Model) -> Recording:
    return VirtualFleet(model=five_bar, seed=1, seconds=3.0).record(0, 0)


@pytest.fixture(scope="module")
def files(recording: Recording, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the same log in three formats."""
    folder = tmp_path_factory.mktemp("files")
    for suffix in ("npz", "csv"):
        recording.save(folder / f"log.{suffix}")
    text = (folder / "log.csv").read_bytes()
    lines = [line for line in text.splitlines(keepends=True) if not line.startswith(b"#")]
    table = pyarrow_csv.read_csv(io.BytesIO(b"".join(lines)))
    parquet.write_table(table, folder / "log.parquet")
    return folder


def equal(one: Recording, other: Recording) -> bool:
    same_effort = one.effort is not None and np.array_equal(one.effort, other.effort)
    return same_effort and np.array_equal(one.time, other.time)


@pytest.mark.parametrize("suffix", ["npz", "csv", "parquet"])
@pytest.mark.parametrize("protocol", ["memory", "file"])
def test_a_log_at_an_address_is_the_log_on_the_disk(
    files: Path, suffix: str, protocol: str
) -> None:
    path = files / f"log.{suffix}"
    address = path.as_uri()
    if protocol == "memory":
        address = f"memory://store/log.{suffix}"
        with fsspec.open(address, "wb") as stream:
            stream.write(path.read_bytes())
    assert equal(read_recording(address), read_recording(path))
    blocks = list(open_recording(address).blocks(300))
    assert np.array_equal(
        np.concatenate([block.time for block in blocks]), read_recording(path).time
    )


def test_patterns_match_addresses(files: Path) -> None:
    matches = matching_files(f"{files.as_uri()}/log.*")
    assert [Path(match).suffix for match in matches] == [".csv", ".npz", ".parquet"]
    assert all(map(is_address, matches))


def test_a_log_that_is_not_there_is_no_failure_of_the_store() -> None:
    with pytest.raises(InvalidRecording, match="there is no file 'memory://nowhere"):
        read_recording("memory://nowhere/log.npz")


def test_formats_that_need_a_disk_say_so(files: Path) -> None:
    (files / "log.mat").write_bytes(b"MATLAB")
    with pytest.raises(InvalidRecording, match="store logs as Parquet, NPZ or text"):
        read_recording((files / "log.mat").as_uri())


def test_the_same_content_has_the_same_identity_in_another_place(files: Path) -> None:
    for name in ("one", "two"):
        with fsspec.open(f"memory://{name}/log.npz", "wb") as stream:
            stream.write((files / "log.npz").read_bytes())
    assert log_hash("memory://one/log.npz") == log_hash("memory://two/log.npz")
    whole = StoredFile("memory://one/log.parquet")
    part = StoredFile("memory://one/log.parquet#row_groups=2:5")
    assert part.row_groups == range(2, 5)
    assert part.suffix == whole.suffix == ".parquet"


@pytest.fixture
def dataset(files: Path, tmp_path: Path) -> Path:
    """A dataset of two robots and two days, fifteen row groups a file."""
    table = parquet.read_table(files / "log.parquet")
    for robot in ("r1", "r2"):
        for day in ("2026-03-02", "2026-03-03"):
            folder = tmp_path / "data" / f"robot={robot}" / f"day={day}"
            folder.mkdir(parents=True)
            parquet.write_table(table, folder / "part.parquet", row_group_size=80)
    return tmp_path / "data"


def test_a_dataset_is_divided_into_ranges_of_row_groups(files: Path, dataset: Path) -> None:
    parts = dataset_parts(str(dataset), rows=300)
    assert len(parts) == 4 * 5
    assert {part.robot for part in parts} == {"r1", "r2"}
    assert {str(part.day) for part in parts} == {"2026-03-02", "2026-03-03"}
    times = [read_recording(part.log).time for part in parts[:5]]
    assert max(map(len, times)) <= 300
    assert np.array_equal(np.concatenate(times), read_recording(files / "log.parquet").time)


def test_a_dataset_without_robots_and_days_is_refused(files: Path, tmp_path: Path) -> None:
    (tmp_path / "log.parquet").write_bytes((files / "log.parquet").read_bytes())
    with pytest.raises(InvalidRecording, match="robot=NAME/day="):
        dataset_parts(str(tmp_path))


@pytest.fixture
def failing() -> Iterator[Any]:
    with object_stores.failing_store() as store:
        yield store


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    with object_stores.s3_server(monkeypatch) as server:
        yield server


@pytest.fixture
def stored(files: Path, failing: Any) -> list[str]:
    """Three logs in the failing store."""
    content = (files / "log.npz").read_bytes()
    other = (files / "log.csv").read_bytes()
    table = (files / "log.parquet").read_bytes()
    addresses = {
        "failing://store/a.npz": content,
        "failing://store/b.csv": other,
        "failing://store/c.parquet": table,
    }
    for address, there in addresses.items():
        with fsspec.open(address, "wb") as stream:
            stream.write(there)
    return list(addresses)


@pytest.fixture(scope="module")
def job(files: Path, five_bar: Model) -> Job:
    sample = sample_of(five_bar, [str(files / "log.npz")])
    return frozen_job("five_bar", five_bar, sample, Processing())


def test_a_store_that_fails_in_the_middle_is_not_a_bad_log(
    stored: list[str], failing: Any, job: Job, tmp_path: Path
) -> None:
    expected = {log: statistics_of_log(job, log_task(log)) for log in stored}
    failing.remaining = 400_000  # the first log is read, the second only in part
    with pytest.raises(WorkerFault, match="connection reset by peer"):
        collect(job, stored, tmp_path, InProcess(), bad="skip")
    failing.remaining = object_stores.UNLIMITED
    done = collect(job, stored, tmp_path, InProcess())
    assert len(done.keys) == 3
    for log, content in expected.items():
        assert (tmp_path / f"{done.keys[log]}.npz").read_bytes() == content


def test_a_log_that_was_removed_from_a_store_is_a_bad_log(
    stored: list[str], job: Job, tmp_path: Path
) -> None:
    collect(job, stored, tmp_path, InProcess())
    system, path = fsspec.core.url_to_fs(stored[1])
    system.rm(path)
    with pytest.raises(InvalidRecording, match=r"1 of 3 logs cannot be used:\n  failing://store/b"):
        collect(job, stored, tmp_path, InProcess())
    assert set(collect(job, stored, tmp_path, InProcess(), bad="skip").bad) == {stored[1]}


def test_a_store_that_fails_while_a_log_is_read_raises_a_fault_of_the_store(
    stored: list[str], failing: Any
) -> None:
    failing.remaining = 1000
    for log in stored:
        with pytest.raises(StorageFault, match="what is done is kept"):
            read_recording(log)


def upload(files: Path, names: list[str]) -> list[str]:
    """Put logs into a bucket, and return their addresses."""
    return list(
        object_stores.put_objects("logs", {name: (files / name).read_bytes() for name in names})
    )


@pytest.mark.slow
def test_an_object_store_that_is_killed_in_the_middle_loses_nothing(
    s3: Any, files: Path, job: Job, tmp_path: Path
) -> None:
    logs = upload(files, ["log.npz", "log.parquet"])
    assert equal(read_recording(logs[1]), read_recording(files / "log.parquet"))
    assert "ETag" in StoredFile(logs[0]).facts
    expected = {log: statistics_of_log(job, log_task(log)) for log in logs}

    def kill_after_the_first(fraction: float) -> None:
        s3.stop()

    with pytest.raises(WorkerFault, match="s3://logs/log"):
        collect(job, logs, tmp_path, InProcess(), bad="skip", progress=kill_after_the_first)
    s3.start_again()
    upload(files, ["log.npz", "log.parquet"])
    done = collect(job, logs, tmp_path, InProcess())
    assert done.skipped == 1
    for log, content in expected.items():
        assert (tmp_path / f"{done.keys[log]}.npz").read_bytes() == content


@pytest.mark.slow
def test_a_connection_that_breaks_inside_an_object_loses_nothing(
    s3: Any, files: Path, job: Job, tmp_path: Path
) -> None:
    logs = upload(files, ["log.csv", "log.npz", "log.parquet"])
    before = s3.connection.remaining
    whole = collect(job, logs, tmp_path / "whole", InProcess())
    n_read = before - s3.connection.remaining
    fractions = (0.3, 0.8)
    for fraction in fractions:
        s3.connection.remaining = int(fraction * n_read)
        with pytest.raises((StorageFault, WorkerFault), match="s3://logs/log"):
            collect(job, logs, tmp_path / str(fraction), InProcess(), bad="skip")
    s3.connection.remaining = object_stores.UNLIMITED
    for fraction in fractions:
        done = collect(job, logs, tmp_path / str(fraction), InProcess())
        assert done.skipped < 3
        assert done.merged().to_bytes() == whole.merged().to_bytes()


def test_a_fleet_file_names_a_dataset(dataset: Path) -> None:
    text = 'format = 1\nrobot = "five_bar"\ndataset = "data"\nzone = "Asia/Tokyo"\n'
    (dataset.parent / "fleet.toml").write_text(text, encoding="utf-8")
    logs = read_fleet_file(str(dataset.parent / "fleet.toml"), FleetSettings()).logs
    assert {log.robot for log in logs} == {"r1", "r2"}
    assert {date_of(log.local_time) for log in logs} == {
        "2026-03-02T00:00:00",
        "2026-03-03T00:00:00",
    }
    assert all("#row_groups=0:15" in log.path for log in logs)
