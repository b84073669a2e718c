"""A whole fleet where its logs are stored: dataset, addresses, workers, a store that fails."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from command_line import run_words
from gough.app.studies import fleet_file
from gough.app.studies.fleet_file import read_fleet_file
from gough.core.errors import InvalidRecording, StorageFault
from gough.core.executors import WorkerFault
from gough.core.storage import StoredFile, address_of
from gough.engine import Model
from gough.fleets.fleet import Fleet, FleetSettings, fleet
from gough.logs.datasets import dataset_parts
from gough.logs.recording import Recording
from gough.processing.many_logs import robot_of
from gough.virtual.fleet_logs import VirtualFleet

fsspec = pytest.importorskip("fsspec")
object_stores = pytest.importorskip("object_stores")
pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

ROBOTS = ("007", "08", "9a")  # 007 and 08 are no numbers
DAYS = ("2026-03-02", "2026-03-03")
SAMPLES = 600  # of a day
PART = 300  # samples of a task
GROUP = 100  # samples of a row group
PROCESSING = """
method = "time"
cutoff = 40.0
decimation = 2
window = 0.005
joints_at_rest = []
dead_band = { "left.motor" = 0.01, "right.motor" = 0.01 }
diagnosed = 0
"""


def table_of(recording: Recording) -> Any:
    """Return a log as a table of pyarrow."""
    columns = {"time [s]": recording.time}
    for name, unit, values in recording.columns():
        columns[f"{name} [{unit}]"] = values
    return pyarrow.table(columns)


@pytest.fixture(scope="module")
def folder(five_bar: Model, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same samples as a dataset, in `data`, and in plain files, in `plain`."""
    folder = tmp_path_factory.mktemp("my fleet")
    virtual = VirtualFleet(model=five_bar, seed=5, seconds=3.0, rate=200.0, kind_scatter=0.15)
    (folder / "plain").mkdir()
    lines = ["log,robot,time"]
    for k, robot in enumerate(ROBOTS):
        for day, date in enumerate(DAYS):
            table = table_of(virtual.record(k, day))
            place = folder / "data" / f"robot={robot}" / f"day={date}"
            place.mkdir(parents=True)
            parquet.write_table(table, place / "part-0.parquet", row_group_size=GROUP)
            for start in range(0, SAMPLES, PART):
                name = f"plain/{robot}-{date}-{start}.parquet"
                parquet.write_table(table.slice(start, PART), folder / name)
                lines.append(f"{name},{robot},{date}T00:00:00Z")
    (folder / "data" / "_SUCCESS").touch()  # as Spark leaves it
    (folder / "logs.csv").write_text("\n".join(lines), encoding="utf-8")
    return folder


def write_fleet_file(folder: Path, logs: str) -> Path:
    """Write a fleet file with one line that names the logs, and fixed processing."""
    path = folder / "fleet.toml"
    text = f'format = 1\nrobot = "five_bar"\n{logs}\n{PROCESSING}'
    path.write_text(text, encoding="utf-8")
    return path


def analysed(file: Path, factors: Path, monkeypatch: pytest.MonkeyPatch) -> Fleet:
    """Return the analysis of a fleet file, with tasks of a few row groups."""
    monkeypatch.setattr(fleet_file, "dataset_parts", partial(dataset_parts, rows=PART))
    content = read_fleet_file(str(file), FleetSettings())
    return fleet(content.robot, content.logs, content.settings, factors=str(factors))


def numbers(found: Fleet) -> dict[str, Any]:
    """Return all numbers of a fleet; names of logs differ from store to store."""
    tables = found.tables()
    return {name: tables[name] for name in ("common", "robots", "periods")}


@pytest.fixture(scope="module")
def expected(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Numbers of the fleet from plain files."""
    with pytest.MonkeyPatch.context() as patch:
        place = tmp_path_factory.mktemp("plain")
        (place / "plain").symlink_to(folder / "plain")
        (place / "logs.csv").symlink_to(folder / "logs.csv")
        file = write_fleet_file(place, 'logs = "logs.csv"')
        return numbers(analysed(file, place / "factors", patch))


def contents(folder: Path) -> dict[str, bytes]:
    """Return the files of the dataset by their paths in it."""
    files = sorted((folder / "data").rglob("*.parquet"))
    return {file.relative_to(folder / "data").as_posix(): file.read_bytes() for file in files}


def put(folder: Path, address: str) -> None:
    """Copy the dataset to an address."""
    for name, content in contents(folder).items():
        with fsspec.open(f"{address}/{name}", "wb") as stream:
            stream.write(content)


@pytest.mark.parametrize("store", ["folder", "memory://fleet"])
def test_a_fleet_from_a_dataset_is_that_from_plain_files_to_the_last_bit(
    store: str,
    folder: Path,
    expected: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A task is a range of row groups; plain files hold the same ranges."""
    dataset = str(folder / "data")
    if store != "folder":
        dataset = store
        put(folder, store)
    file = write_fleet_file(tmp_path, f'dataset = "{dataset}"')
    found = analysed(file, tmp_path / "factors", monkeypatch)
    assert [history.robot for history in found.histories] == list(ROBOTS)
    assert {len(paths) for history in found.histories for paths in history.logs} == {2}
    assert numbers(found) == expected


def test_a_store_that_fails_at_any_time_gives_a_refusal_and_then_the_same_bits(
    folder: Path, expected: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the dataset is listed, logs are reduced, and the kind is judged, which is last."""
    with object_stores.failing_store() as store:
        put(folder, "failing://fleet")
        robot_of.cache_clear()
        file = write_fleet_file(tmp_path, 'dataset = "failing://fleet"\nbad = "skip"')
        assert numbers(analysed(file, tmp_path / "whole", monkeypatch)) == expected
        n_read = object_stores.UNLIMITED - store.remaining
        for n_bytes in (1000, n_read // 2, n_read - 1):
            robot_of.cache_clear()  # so that workers read the log again by which they are checked
            store.remaining = n_bytes
            with pytest.raises((StorageFault, WorkerFault), match="connection reset by peer"):
                analysed(file, tmp_path / str(n_bytes), monkeypatch)
        store.remaining = object_stores.UNLIMITED
        assert numbers(analysed(file, tmp_path / str(n_read // 2), monkeypatch)) == expected


@pytest.mark.slow
def test_workers_read_a_fleet_from_an_object_store_and_give_the_same_bits(
    folder: Path, expected: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command, two processes that read by themselves, and tables on the disk."""
    with object_stores.s3_server(monkeypatch) as server:
        object_stores.put_objects("fleet", contents(folder))
        write_fleet_file(tmp_path, 'dataset = "s3://fleet"')
        monkeypatch.setattr(fleet_file, "dataset_parts", partial(dataset_parts, rows=PART))
        command = ["gough", "fleet", "fleet.toml", "--workers", "2", "--factors", "factors"]
        outcome = run_words([*command, "-o", "result"], tmp_path)
        assert outcome.code == 0, outcome.err
        for name, columns in expected.items():
            table = parquet.read_table(tmp_path / "result" / f"{name}.parquet")
            assert table.to_pydict() == columns, name
        server.stop()
        outcome = run_words([*command, "-o", "other"], tmp_path)
    assert outcome.code != 0
    assert "check network and access rights" in outcome.err
    assert len(outcome.err.strip().splitlines()) <= 3  # no traceback


def test_damaged_and_empty_files_of_a_dataset_are_named_as_bad_logs(
    folder: Path, tmp_path: Path
) -> None:
    for name, content in contents(folder).items():
        path = tmp_path / "data" / name
        path.parent.mkdir(parents=True)
        path.write_bytes(content)
    damaged = tmp_path / "data" / f"robot={ROBOTS[0]}" / f"day={DAYS[0]}" / "part-1.parquet"
    damaged.write_bytes(b"PAR1 half of a file")
    empty = damaged.with_name("part-2.parquet")
    schema = parquet.read_schema(damaged.with_name("part-0.parquet"))
    parquet.write_table(schema.empty_table(), empty)
    file = write_fleet_file(tmp_path, 'dataset = "data"')
    content = read_fleet_file(str(file), FleetSettings())
    with pytest.raises(InvalidRecording) as error:
        fleet(content.robot, content.logs, content.settings, factors=str(tmp_path / "factors"))
    assert "2 of 8 logs cannot be used" in str(error.value)
    assert damaged.name in str(error.value)
    assert empty.name in str(error.value)


def test_the_description_of_a_fleet_file_is_that_of_a_dataset_too(
    folder: Path, tmp_path: Path
) -> None:
    text = f'dataset = "{folder / "data"}"\ndescription = "columns.toml"'
    logs = read_fleet_file(str(write_fleet_file(tmp_path, text)), FleetSettings()).logs
    assert all(log.path.endswith(f"@{tmp_path / 'columns.toml'}") for log in logs)


def test_row_groups_without_an_etag_are_known_by_their_own_bytes(
    folder: Path, tmp_path: Path
) -> None:
    """The same samples in another file are the same log; other samples are not."""
    table = parquet.read_table(next((folder / "data").rglob("*.parquet")))
    one = tmp_path / "one.parquet"
    other = tmp_path / "other.parquet"
    parquet.write_table(table, one, row_group_size=GROUP)
    parquet.write_table(table.slice(GROUP, 3 * GROUP), other, row_group_size=GROUP)
    identity = StoredFile(f"{address_of(one)}#row_groups=1:4").identity()
    assert identity == StoredFile(f"{address_of(other)}#row_groups=0:3").identity()
    assert identity != StoredFile(f"{address_of(one)}#row_groups=0:3").identity()
    assert identity != StoredFile(address_of(other)).identity()


def test_what_is_asked_about_a_part_of_a_long_file_reads_no_more_than_the_part(
    tmp_path: Path,
) -> None:
    """Its hash needs its own bytes, and whether it changed needs none."""
    samples = np.random.default_rng(0).standard_normal(1_000_000)
    parquet.write_table(pyarrow.table({"x": samples}), tmp_path / "long", row_group_size=50_000)
    content = (tmp_path / "long").read_bytes()
    address = "failing://long/robot=a/day=2026-03-02/long.parquet"
    with object_stores.failing_store() as store:
        with fsspec.open(address, "wb") as stream:
            stream.write(content)
        part = dataset_parts("failing://long", rows=50_000)[3]
        assert part.log.endswith("#row_groups=3:4")
        before = store.remaining
        StoredFile(part.log).identity()
        assert before - store.remaining < 0.5 * len(content)
        before = store.remaining
        assert StoredFile(part.log).stamp() == StoredFile(part.log).stamp()
        assert store.remaining == before
