"""Many logs through factor files: any number of workers, any order, workers that die, bad logs,
copies, clusters.
"""

from __future__ import annotations

import errno
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import chdir
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import own_mounts
from command_line import gough
from gough.app.identify import identify_logs
from gough.core.errors import InvalidInput, InvalidRecording, MissingLibrary, StorageFault
from gough.core.executors import (
    Cluster,
    InProcess,
    Processes,
    WorkerFault,
    WorkersLost,
)
from gough.engine import Model
from gough.identification.many_logs import FactorSettings
from gough.logs.recording import Recording
from gough.processing import Processing, choose_processing, log_statistics
from gough.processing.log_index import INDEX_FILE
from gough.processing.many_logs import Bad, Job, collect, log_task, statistics_of_log
from gough.virtual import Simulation, record

LOGS = 6


@pytest.fixture(scope="module")
def logs(
    five_bar: Model, five_bar_run: Simulation, tmp_path_factory: pytest.TempPathFactory
) -> list[str]:
    """Short logs of one motion with other noise each, without stated periods."""
    folder = tmp_path_factory.mktemp("logs")
    found = []
    for k in range(LOGS):
        log = replace(record(five_bar_run, seed=k), period_samples=None)
        part = log.take(slice(500 * k, 500 * k + 2500))
        replace(part, time=part.time - part.time[0]).save(folder / f"log{k}.npz")
        found.append(str(folder / f"log{k}.npz"))
    return found


@pytest.fixture(scope="module")
def job(five_bar: Model, logs: list[str]) -> Job:
    from gough.logs.readers import read_recording

    choice = choose_processing(five_bar, [read_recording(log) for log in logs[:2]])
    return Job.of("five_bar", choice.processing, joint=True)


@pytest.fixture(scope="module")
def alone(
    job: Job, logs: list[str], tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, bytes], bytes]:
    """The factor files made one after the other, and what they merge to."""
    folder = tmp_path_factory.mktemp("alone")
    merged = collect(job, logs, folder, InProcess()).merged().to_bytes()
    return files(folder), merged


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.npz"))}


def test_factors_of_logs_are_what_condensing_them_together_gives(
    five_bar: Model, job: Job, logs: list[str], tmp_path: Path
) -> None:
    from gough.engine import base_parameters
    from gough.logs.readers import read_recording

    merged = collect(job, logs, tmp_path, InProcess()).merged().statistics
    whole = log_statistics(
        five_bar, [read_recording(log) for log in logs], base_parameters(five_bar), job.settings
    )
    gram = [np.einsum("rki,rkj->rij", each.factors, each.factors) for each in (merged, whole)]
    assert gram[0] == pytest.approx(gram[1], rel=1e-9, abs=1e-9 * np.abs(gram[1]).max())


@pytest.mark.slow
def test_workers_and_order_do_not_change_a_bit(
    job: Job, logs: list[str], alone: tuple[dict[str, bytes], bytes], tmp_path: Path
) -> None:
    collected = collect(job, logs[::-1], tmp_path, Processes(workers=2))
    assert files(tmp_path) == alone[0]
    assert collected.merged().to_bytes() == alone[1]


def worker_processes() -> list[int]:
    """Return the process numbers of the workers that this process has started."""
    parent = os.getpid()
    workers = []
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text(encoding="utf-8")
    for pid in map(int, children.split()):
        command = Path(f"/proc/{pid}/cmdline")
        if command.exists() and b"spawn_main" in command.read_bytes():
            workers.append(pid)
    return workers


@pytest.mark.slow
def test_a_killed_worker_costs_no_log_and_no_bit(
    job: Job, logs: list[str], alone: tuple[dict[str, bytes], bytes], tmp_path: Path
) -> None:
    def kill() -> None:
        """Kill a worker process as soon as the first log is reduced, while others wait."""
        for _ in range(6000):
            workers = worker_processes()
            if workers and any(tmp_path.rglob("*.npz")):
                os.kill(workers[0], signal.SIGKILL)
                killed.append(workers[0])
                return
            time.sleep(0.005)

    if not Path("/proc/self/task").exists():
        pytest.skip("finds its children by /proc")
    killed: list[int] = []
    thread = threading.Thread(target=kill)
    thread.start()
    merged = collect(job, logs, tmp_path, Processes(workers=2)).merged().to_bytes()
    thread.join()
    assert killed
    assert merged == alone[1]
    assert files(tmp_path) == alone[0]


def die(task: int) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return task


@pytest.mark.slow
def test_work_that_kills_every_worker_ends_with_a_clear_error() -> None:
    with pytest.raises(WorkersLost, match="died 3 times in a row without finishing a task; 2 of 2"):
        list(Processes(workers=1).run(die, [1, 2]))


@pytest.mark.slow
def test_a_real_cluster_gives_the_same_bits(
    job: Job, logs: list[str], alone: tuple[dict[str, bytes], bytes], tmp_path: Path
) -> None:
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0"
    ) as cluster:
        merged = collect(job, logs, tmp_path, Cluster(address=cluster.scheduler_address)).merged()
    assert files(tmp_path) == alone[0]
    assert merged.to_bytes() == alone[1]


def test_a_cluster_that_is_not_there_is_named(job: Job, logs: list[str], tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    with pytest.raises(InvalidInput, match=r"no scheduler at 'tcp://127.0.0.1:9'"):
        collect(job, logs, tmp_path, Cluster(address="tcp://127.0.0.1:9", patience=1.0))


def test_a_worker_with_other_source_refuses(job: Job, logs: list[str]) -> None:
    with pytest.raises(WorkerFault, match="other source of Gough"):
        statistics_of_log(replace(job, code="0" * 64), log_task(logs[0]))


def test_a_worker_with_another_robot_file_refuses(job: Job, logs: list[str]) -> None:
    with pytest.raises(WorkerFault, match="not the one the work is for"):
        statistics_of_log(replace(job, robot_hash="0" * 64), log_task(logs[0]))


def test_a_worker_that_sees_another_log_refuses(job: Job, logs: list[str]) -> None:
    with pytest.raises(WorkerFault, match="sees another file"):
        statistics_of_log(replace(job, probe=logs[0], probe_hash="0" * 64), log_task(logs[1]))
    with pytest.raises(WorkerFault, match="sees another file"):
        statistics_of_log(job, log_task(logs[1])._replace(n_bytes=7))


class Faulty:
    """An executor of one worker that fails at one log, for no fault of the log."""

    def run(self, function, tasks):
        for index, outcome in InProcess().run(function, tasks):
            yield index, WorkerFault("it has no memory") if index == 1 else outcome


def test_a_worker_with_other_libraries_refuses(job: Job, logs: list[str]) -> None:
    other = replace(job, libraries=job.libraries.replace("numpy ", "numpy 1."))
    with pytest.raises(WorkerFault, match=r"it has casadi .*, expected casadi .*numpy 1"):
        statistics_of_log(other, log_task(logs[0]))


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(errno.EIO, "Input/output error"), "Input/output error"),
        (InvalidRecording("cannot read"), "Stale file handle"),
        (MemoryError(), "too little memory"),
        (MissingLibrary("this needs h5py"), "this needs h5py"),
        (StorageFault("the store failed"), "the store failed"),
    ],
)
def test_what_fails_on_a_worker_while_it_reads_a_log_is_its_fault(
    error: Exception, said: str, job: Job, logs: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not that of the log, which can be read where the work is given out."""
    from gough.processing import many_logs

    if isinstance(error, InvalidRecording):
        error.__cause__ = OSError(errno.ESTALE, "Stale file handle")

    def fail(*given: object, **options: object) -> Recording:
        raise error

    monkeypatch.setattr(many_logs, "read_recording", fail)
    with pytest.raises(WorkerFault, match=said):
        statistics_of_log(job, log_task(logs[0]))


@pytest.mark.parametrize("cause", [OSError("truncated"), OSError(errno.EINVAL, "Invalid")])
def test_a_damaged_log_is_no_fault_of_a_worker(
    cause: OSError, job: Job, logs: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from gough.processing import many_logs

    def fail(*given: object, **options: object) -> Recording:
        raise InvalidRecording("damaged") from cause

    monkeypatch.setattr(many_logs, "read_recording", fail)
    with pytest.raises(InvalidRecording, match="damaged"):
        statistics_of_log(job, log_task(logs[0]))


@pytest.mark.parametrize("bad", ["refuse", "skip"])
def test_no_log_is_skipped_for_a_fault_of_a_worker(
    job: Job, logs: list[str], tmp_path: Path, bad: Bad
) -> None:
    with pytest.raises(WorkerFault, match="no memory"):
        collect(job, logs, tmp_path, Faulty(), bad=bad)


def faulty_at_first(folder: str, task: int) -> int:
    """Fail at the first try of each task."""
    mark = Path(folder) / str(task)
    if not mark.exists():
        mark.touch()
        raise WorkerFault("it is not ready")
    return -task


@pytest.mark.slow
def test_a_failed_task_goes_elsewhere(tmp_path: Path) -> None:
    work = partial(faulty_at_first, str(tmp_path))
    assert dict(Processes(workers=2).run(work, [1, 2, 3])) == {0: -1, 1: -2, 2: -3}


def test_relative_paths_are_resolved_before_they_travel(
    job: Job, logs: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers have another working directory."""
    folder = Path(logs[0]).parent

    class Elsewhere:
        def run(self, function, tasks):
            with chdir(tmp_path):
                yield from InProcess().run(function, tasks)

    monkeypatch.chdir(folder)
    collected = collect(job, [Path(log).name for log in logs[:2]], tmp_path / "f", Elsewhere())
    assert list(collected.keys) == ["log0.npz", "log1.npz"]
    again = collect(job, logs[:2], tmp_path / "f", InProcess())
    assert again.skipped == 2  # the same logs under their full paths


def test_branches_merged_by_workers_give_the_same_bits(
    job: Job,
    logs: list[str],
    alone: tuple[dict[str, bytes], bytes],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from gough.processing import many_logs

    collected = collect(job, logs, tmp_path, InProcess())
    for per_merge in (1, 2, 4):
        monkeypatch.setattr(many_logs, "FILES_PER_MERGE", per_merge)
        assert collected.merged(InProcess()).to_bytes() == alone[1]


def test_an_index_that_is_damaged_is_begun_anew(job: Job, logs: list[str], tmp_path: Path) -> None:
    collect(job, logs[:1], tmp_path, InProcess())
    (tmp_path / INDEX_FILE).write_bytes(b"no index" * 100)
    assert collect(job, logs[:1], tmp_path, InProcess()).skipped == 0
    assert collect(job, logs[:1], tmp_path, InProcess()).skipped == 1


class Counting:
    """Counts what it is asked to do, and stops like Ctrl-C after some."""

    def __init__(self, most: int = 1000) -> None:
        self.done, self.most = 0, most

    def run(self, function, tasks):
        for item in InProcess().run(function, tasks):
            if self.done == self.most:
                raise KeyboardInterrupt
            self.done += 1
            yield item


def test_what_is_finished_is_not_done_again(
    job: Job, logs: list[str], alone: tuple[dict[str, bytes], bytes], tmp_path: Path
) -> None:
    stopped = Counting(most=2)
    with pytest.raises(KeyboardInterrupt):
        collect(job, logs, tmp_path, stopped)
    assert len(files(tmp_path)) == 2
    rest = Counting()
    collected = collect(job, logs, tmp_path, rest)
    assert rest.done == LOGS - 2
    assert collected.skipped == 2
    assert collected.merged().to_bytes() == alone[1]
    other = Counting()
    collect(
        replace(job, tie_legs=True), logs[:1], tmp_path, other
    )  # other parameters are other work
    assert other.done == 1


def test_progress_goes_over_all_logs(job: Job, logs: list[str], tmp_path: Path) -> None:
    told: list[float] = []
    collect(job, logs, tmp_path, InProcess(), progress=told.append)
    assert told == pytest.approx(np.arange(1, LOGS + 1) / LOGS)


@pytest.fixture
def bad_logs(logs: list[str], five_bar_log: Recording, tmp_path: Path) -> dict[str, str]:
    """Good logs, one cut in the middle, one of another robot, a copy, and one that is not there."""
    folder = tmp_path / "mixed"
    folder.mkdir()
    for log in logs[:3]:
        shutil.copy(log, folder)
    shutil.copy(logs[1], folder / "copy.npz")
    data = Path(logs[3]).read_bytes()
    (folder / "half.npz").write_bytes(data[: len(data) // 2])
    foreign = replace(five_bar_log, joints=tuple(f"x{k}" for k in range(len(five_bar_log.joints))))
    foreign.save(folder / "foreign.csv")
    names = {path.name: str(path) for path in folder.iterdir()}
    return names | {"missing.npz": str(folder / "missing.npz")}


def test_bad_logs_are_all_named_and_the_others_kept(
    job: Job, bad_logs: dict[str, str], tmp_path: Path
) -> None:
    with pytest.raises(InvalidRecording) as error:
        collect(job, list(bad_logs.values()), tmp_path / "factors", InProcess())
    for name in ("half.npz", "foreign.csv", "missing.npz"):
        assert name in str(error.value)
    assert "log0.npz" not in str(error.value)
    again = Counting()
    with pytest.raises(InvalidRecording):
        collect(job, list(bad_logs.values()), tmp_path / "factors", again)
    assert again.done == 2  # the one that is missing is not even tried


def test_bad_logs_are_skipped_if_asked_and_copies_count_once(
    job: Job, bad_logs: dict[str, str], tmp_path: Path
) -> None:
    collected = collect(job, list(bad_logs.values()), tmp_path / "factors", InProcess(), bad="skip")
    assert {Path(path).name for path in collected.bad} == {"half.npz", "foreign.csv", "missing.npz"}
    assert {Path(a).name: Path(b).name for a, b in collected.copies.items()} == {
        "log1.npz": "copy.npz"
    }
    assert len(collected.keys) == 3
    assert len(collected.merged().logs) == 3
    assert sum("left out" in str(notice) for notice in collected.notices) == 3
    assert sum("used once" in str(notice) for notice in collected.notices) == 1


def test_a_damaged_factor_is_refused_by_name(job: Job, logs: list[str], tmp_path: Path) -> None:
    collected = collect(job, logs, tmp_path, InProcess())
    victim = next(iter(files(tmp_path)))
    (tmp_path / victim).write_bytes(b"PK")
    with pytest.raises(InvalidInput, match=victim):
        collected.merged()


@pytest.mark.slow
def test_a_disk_that_is_full_loses_nothing(logs: list[str], tmp_path: Path) -> None:
    """A real one, of 200 kB; the next run, on a larger disk, continues."""
    own_mounts.require_own_mounts()
    disk = tmp_path / "disk"
    disk.mkdir()
    output = tmp_path / "output"
    output.mkdir()
    words = [sys.executable, "-m", "gough", "identify", "five_bar", *logs, "--factors", str(disk)]
    run = shlex.join([*words, "-o", str(output / "result")])
    kept = shlex.join(["cp", "-r", str(disk)])
    steps = [
        own_mounts.small_disk(disk, 200_000),
        f"{{ {run} 2> {output}/refusal && exit 1; }}",
        f"{{ {kept} {output}/first; true; }}",
        own_mounts.larger_disk(disk, 50_000_000),
        f"{run} 2> {output}/again",
        f"{kept} {output}/second",
    ]
    subprocess.run([*own_mounts.OWN_MOUNTS, " ; ".join(["set -e", *steps])], check=True)
    refusal = (output / "refusal").read_text(encoding="utf-8")
    lines = [line for line in refusal.splitlines() if "%" not in line]
    assert len(lines) == 1, refusal
    assert "No space left on device" in lines[0]
    first = files(output / "first")
    assert 1 <= len(first) < LOGS
    second = files(output / "second")
    assert len(second) == LOGS
    assert first.items() <= second.items()  # kept to the last bit
    whole = tmp_path / "whole"
    subprocess.run([*words[:-1], str(whole), "-o", str(output / "whole")], check=True)
    assert files(whole) == second


def test_processing_is_frozen_first() -> None:
    with pytest.raises(InvalidInput, match="complete processing"):
        Job.of("five_bar", Processing())


@pytest.mark.slow
def test_identification_is_the_same_byte_for_byte_with_any_number_of_workers(
    logs: list[str], tmp_path: Path
) -> None:
    """Whole commands, files in another order, a cluster among them."""

    def command(name: str, *words: str, order: int = 1) -> bytes:
        output = ["-o", name, "--factors", f"{name}.factors"]
        gough(tmp_path, "identify", "five_bar", *logs[::order], *output, *words)
        content = json.loads((tmp_path / name / "estimate.json").read_text(encoding="utf-8"))
        assert len(content["logs"]["identification"]) == LOGS
        return (tmp_path / name / "estimate.json").read_bytes() + (
            tmp_path / name / "fits.npz"
        ).read_bytes()

    first = command("one", "--workers", "1")
    assert command("two", "--workers", "2", order=-1) == first
    assert command("cluster", "--cluster", "local") == first


def test_estimators_that_need_samples_say_so(logs: list[str], tmp_path: Path) -> None:
    for name in ("robust", "ml", "tls"):
        with pytest.raises(InvalidInput, match=f"'{name}' needs the samples of all logs at once"):
            identify_logs(
                "five_bar", logs, work=FactorSettings(factors=str(tmp_path)), estimator=name
            )


class Vanishing:
    """A cluster whose scheduler goes away after the first results."""

    def run(self, function, tasks):
        from distributed import LocalCluster

        cluster = LocalCluster(
            n_workers=1, threads_per_worker=1, dashboard_address="127.0.0.1:0", silence_logs=50
        )
        for k, item in enumerate(Cluster(address=cluster.scheduler_address).run(function, tasks)):
            if k == 1:
                threading.Thread(target=cluster.close).start()
            yield item


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Dask's own, of connections that break
def test_a_scheduler_that_goes_away_costs_nothing_that_is_finished(
    job: Job, logs: list[str], alone: tuple[dict[str, bytes], bytes], tmp_path: Path
) -> None:
    pytest.importorskip("distributed")
    with pytest.raises(
        WorkersLost, match=r"went away after \d of 6 tasks; finished tasks were kept"
    ):
        collect(job, logs, tmp_path, Vanishing())
    kept = len(files(tmp_path))
    assert 1 <= kept < LOGS
    collected = collect(job, logs, tmp_path, InProcess())
    assert collected.skipped == kept
    assert collected.merged().to_bytes() == alone[1]
