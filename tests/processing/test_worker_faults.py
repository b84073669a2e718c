"""Real schedulers and workers, some of them not fit for the work, some killed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

import gough
import own_mounts
from gough.core import executors
from gough.core.executors import Cluster, InProcess, WorkerFault, WorkersLost, _ClusterRun
from gough.engine import Model
from gough.mechanism import robot_text
from gough.processing import choose_processing
from gough.processing.many_logs import Job, LogTask, collect
from gough.virtual import Simulation, record

pytest.importorskip("distributed")
pytestmark = pytest.mark.slow
SOURCE = Path(gough.__file__).parents[1]


class Machines:
    """A scheduler and workers, each a process of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes: list[subprocess.Popen[bytes]] = []
        self.file = folder / "scheduler.json"
        self.scheduler = self.start("scheduler", "--host", "127.0.0.1", "--port", "0")
        while not self.file.exists():
            assert self.scheduler.poll() is None
            time.sleep(0.1)
        self.address = json.loads(self.file.read_text(encoding="utf-8"))["address"]

    def start(
        self, kind: str, *words: str, mounts: Sequence[str] = (), **environment: str
    ) -> subprocess.Popen[bytes]:
        """Start a scheduler or a worker."""
        common = ["--scheduler-file", str(self.file), "--no-dashboard"]
        command = [sys.executable, "-m", f"distributed.cli.dask_{kind}", *common, *words]
        if mounts:
            command = own_mounts.with_mounts(mounts, command)
        with open(self.folder / f"{kind}.log", "ab") as log:
            process = subprocess.Popen(
                command,
                env=os.environ | environment,
                cwd=self.folder,
                stdout=log,
                stderr=log,
            )
        self.processes.append(process)
        return process

    def worker(self, source: Path = SOURCE, mounts: Sequence[str] = ()) -> subprocess.Popen[bytes]:
        """Start a worker with some source, which sees other file systems after some mounts."""
        words = ["--nthreads", "1", "--no-nanny"]
        return self.start("worker", *words, mounts=mounts, PYTHONPATH=str(source))


@contextmanager
def machines(folder: Path) -> Iterator[Machines]:
    """Start a scheduler; end it and its workers afterwards."""
    group = Machines(folder)
    try:
        yield group
    finally:
        for process in group.processes:
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def logs(five_bar_run: Simulation, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Twelve short logs."""
    folder = tmp_path_factory.mktemp("shared")
    paths = []
    for k in range(12):
        log = replace(record(five_bar_run, seed=k), period_samples=None)
        path = folder / f"log{k:02d}.npz"
        log.take(slice(0, 1500)).save(path)
        paths.append(str(path))
    return paths


@pytest.fixture(scope="module")
def job(five_bar: Model, logs: list[str], tmp_path_factory: pytest.TempPathFactory) -> Job:
    from gough.logs.readers import read_recording

    robot = tmp_path_factory.mktemp("robot") / "five_bar.toml"
    robot.write_text(robot_text("five_bar")[0], encoding="utf-8")
    choice = choose_processing(five_bar, [read_recording(logs[0])])
    return Job.of(str(robot), choice.processing)


def faulty(job: Job, logs: list[str], group: Machines, folder: Path) -> Mapping[str, str]:
    """Start three workers that are not fit for the work; return what is said of each.

    One has another version, one does not see the folder of the logs, and where the robot file is
    one has another file.
    """
    other = folder / "other"
    shutil.copytree(SOURCE / "gough", other / "gough", ignore=shutil.ignore_patterns("__pycache__"))
    with open(other / "gough" / "core" / "units.py", "a", encoding="utf-8") as stream:
        stream.write("\n# of another day\n")
    group.worker(other)
    group.worker(mounts=[own_mounts.empty_folder(Path(logs[0]).parent)])
    changed = folder / "changed.toml"
    changed.write_text(Path(job.robot).read_text(encoding="utf-8") + "\n# changed\n")
    group.worker(mounts=[own_mounts.other_file(Path(job.robot), changed)])
    return {
        "source": "other source of Gough",
        "logs": "No such file or directory",
        "robot": "not the one the work is for",
    }


def wait_for_workers(address: str, count: int) -> None:
    from distributed import Client

    with Client(address, set_as_default=False) as client:
        client.wait_for_workers(count, timeout=60)


def test_faulty_workers_get_no_work_and_cost_no_log(
    job: Job, logs: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The paths are relative to the folder of this process; the workers work in another one."""
    own_mounts.require_own_mounts()
    expected = collect(job, logs, tmp_path / "alone", InProcess()).merged().to_bytes()
    with machines(tmp_path) as group:
        reasons = faulty(job, logs, group, tmp_path)
        group.worker()
        wait_for_workers(group.address, 4)
        executor = Cluster(address=group.address)
        monkeypatch.chdir(Path(logs[0]).parent)
        names = [Path(log).name for log in logs]
        collected = collect(job, names, tmp_path / "cluster", executor, bad="skip")
    assert not collected.bad
    assert collected.merged().to_bytes() == expected
    said = list(collected.faults.values())
    assert said
    for text in said:  # a worker that got no task has nothing to say
        assert sum(reason in text for reason in reasons.values()) == 1
    assert sum("worker was not used" in str(notice) for notice in collected.notices) == len(said)


def test_without_a_fit_worker_nothing_is_skipped(job: Job, logs: list[str], tmp_path: Path) -> None:
    own_mounts.require_own_mounts()
    with machines(tmp_path) as group:
        reasons = faulty(job, logs, group, tmp_path)
        wait_for_workers(group.address, 3)
        executor = Cluster(address=group.address)
        with pytest.raises(WorkerFault):
            collect(job, logs, tmp_path / "cluster", executor, bad="skip")
    assert len(executor.faults) == 3
    for reason in reasons.values():
        assert any(reason in text for text in executor.faults.values())


@pytest.mark.parametrize(
    ("workers", "faulty", "expected"),
    [(None, ["a"], False), ([], ["a"], False), (["a", "b"], ["a"], False), (["a"], ["a"], True)],
)
def test_a_scheduler_that_does_not_answer_in_time_may_still_have_fit_workers(
    workers: list[str] | None, faulty: list[str], expected: bool
) -> None:
    """None stands for a scheduler that is too busy to answer."""
    distributed = pytest.importorskip("distributed")

    class Client:
        def scheduler_info(self, n_workers: int) -> dict[str, list[str]]:
            if workers is None:
                raise TimeoutError
            return {"workers": workers}

    cluster = Cluster(address="tcp://127.0.0.1:9")
    cluster.faults.update(dict.fromkeys(faulty, "no logs"))
    assert _ClusterRun(cluster, Client(), distributed)._all_faulty() is expected


def test_a_scheduler_without_workers_is_named(job: Job, logs: list[str], tmp_path: Path) -> None:
    with machines(tmp_path) as group, pytest.raises(WorkersLost, match="has no workers"):
        collect(job, logs, tmp_path / "f", Cluster(address=group.address, patience=1.0))


@pytest.mark.parametrize("moment", ["before the work is sent", "before a task is sent"])
def test_a_scheduler_that_dies_before_a_task_is_done_is_named(
    moment: str, job: Job, logs: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with machines(tmp_path) as group:
        group.worker()
        wait_for_workers(group.address, 1)
        packed = executors._packed

        def kill_first(value: object) -> bytes:
            if isinstance(value, LogTask) or moment == "before the work is sent":
                group.scheduler.kill()
                group.scheduler.wait()
            return packed(value)

        monkeypatch.setattr(executors, "_packed", kill_first)
        executor = Cluster(address=group.address, patience=3.0)
        with pytest.raises(WorkersLost, match="went away after 0 of 12 tasks"):
            collect(job, logs, tmp_path / "f", executor, bad="skip")


def test_a_cluster_whose_workers_are_all_killed_ends_with_one_error(
    job: Job, logs: list[str], tmp_path: Path
) -> None:
    """Finished logs are kept; the scheduler remains."""
    with machines(tmp_path) as group:
        workers = [group.worker(), group.worker()]
        wait_for_workers(group.address, 2)

        def kill_all(fraction: float) -> None:
            for worker in workers:
                worker.kill()

        executor = Cluster(address=group.address, patience=2.0)
        with pytest.raises(WorkersLost, match="has no workers"):
            collect(job, logs, tmp_path / "f", executor, bad="skip", progress=kill_all)
    kept = len(list((tmp_path / "f").glob("*.npz")))
    assert 1 <= kept < 12
    alone = collect(job, logs, tmp_path / "alone", InProcess()).merged().to_bytes()
    again = collect(job, logs, tmp_path / "f", InProcess())
    assert again.skipped == kept
    assert again.merged().to_bytes() == alone


def test_what_tasks_share_is_sent_again_if_all_workers_that_had_it_die(
    job: Job, logs: list[str], tmp_path: Path
) -> None:
    with machines(tmp_path) as group:
        first = group.worker()
        wait_for_workers(group.address, 1)

        def replace_first(fraction: float) -> None:
            if first.poll() is None:
                first.kill()
                first.wait()
                group.worker()

        executor = Cluster(address=group.address, patience=30.0)
        collected = collect(job, logs, tmp_path / "f", executor, bad="skip", progress=replace_first)
    assert not collected.bad
    alone = collect(job, logs, tmp_path / "alone", InProcess()).merged().to_bytes()
    assert collected.merged().to_bytes() == alone


def test_a_killed_worker_costs_nothing_and_a_killed_scheduler_gives_one_line(
    job: Job, logs: list[str], tmp_path: Path
) -> None:
    """As a command, with what it prints; the next run continues."""
    environment = os.environ | {"PYTHONPATH": str(SOURCE)}
    factors = tmp_path / "factors"
    with machines(tmp_path) as group:
        first = group.worker()
        group.worker()
        wait_for_workers(group.address, 2)
        words = ["identify", job.robot, *logs, "--factors", str(factors), "-o", "result"]
        command = [sys.executable, "-m", "gough", *words, "--cluster", group.address]
        process = subprocess.Popen(
            command, env=environment, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        until_files(factors, 1, process)
        first.send_signal(signal.SIGKILL)
        until_files(factors, 3, process)
        group.scheduler.send_signal(signal.SIGKILL)
        _, printed = process.communicate(timeout=120)
    lines = [line for line in printed.decode().splitlines() if "%" not in line]
    assert process.returncode != 0
    assert len(lines) == 1, printed.decode()
    assert "went away after" in lines[0]
    kept = len(list(factors.glob("*.npz")))
    assert 3 <= kept < 12


def until_files(folder: Path, count: int, process: subprocess.Popen[bytes]) -> None:
    while len(list(folder.glob("*.npz"))) < count:
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
