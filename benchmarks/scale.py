"""More than one machine: throughput and memory of workers, drift and common part of simulated
fleets.

    python benchmarks/scale.py [logs] [costs] [merging] [throughput] [memory] [drift] [common] [--small]

`logs`: processor time to reduce a log of a minute to its statistics, from a path, from `file://` as
NPZ and as row groups of Parquet, and with untied legs. `costs`: processor time of all else that is
done for a log: storing, merging, index, hash. `throughput`: logs of a minute condensed in this
process, by one and two worker processes and by a local Dask cluster. `memory`: peak of a process that condenses one log of 10^5, 10^6 and 10^7
samples. `drift`, `common`: 200 and 50 fleets of 50 robots, estimates drawn with the covariance that
a log of 5 s of pick and place gives on the Delta.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.executors import Cluster, Executor, InProcess, Processes
from gough.core.names import Parameter
from gough.core.storage import address_of
from gough.engine import Model, base_parameters
from gough.fitting.estimate import Estimate
from gough.fitting.least_squares import WeightedLeastSquares
from gough.fitting.log_statistics import load_log_statistics, merge_all
from gough.fleets.hierarchy import drifts, hierarchy, trend
from gough.identification.many_logs import frozen_job, sample_of
from gough.logs.readers import read_recording
from gough.mechanism import load_robot
from gough.processing import Processing, choose_processing, log_statistics
from gough.processing.log_index import INDEX_FILE, LogIndex
from gough.processing.many_logs import (
    Collected,
    Job,
    collect,
    log_hash,
    log_task,
    statistics_of_log,
)
from gough.virtual.fleet_logs import VirtualFleet

Row = tuple[str, str, str, str]
LOGS, SECONDS, RATE = 16, 60.0, 1000.0
MERGED_FILES = 16
EXECUTORS: dict[str, Executor] = {
    "in process": InProcess(),
    "1 process": Processes(workers=1),
    "2 processes": Processes(workers=2),
    "Dask, 2 workers": Cluster(address=None),
}


def written(folder: Path, count: int, seconds: float) -> list[str]:
    """Write logs of the Delta and return their paths."""
    fleet = VirtualFleet(model=Model(load_robot("delta")), seconds=seconds, rate=RATE)
    return [str(fleet.record(k, 0).save(folder / f"log{k:02d}.npz")) for k in range(count)]


def job_for(paths: list[str]) -> Job:
    """Return how they are condensed."""
    model = Model(load_robot("delta"))
    return frozen_job("delta", model, sample_of(model, paths, 2), Processing(), tie_legs=True)


def cpu() -> float:
    """Return the time that processors worked for this process and those it started: on a busy
    machine what counts.
    """
    usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in usage)


def throughput(
    logs_written: int = LOGS,
    seconds: float = SECONDS,
    executors: Mapping[str, Executor] = EXECUTORS,
) -> Iterator[Row]:
    """Logs of a minute: seconds a log, start of the workers included and beside it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths = written(folder, logs_written, seconds)
        job = job_for(paths[:2])
        statistics_of_log(job, log_task(paths[0]))
        os.environ["GOUGH_THREADS"] = "1"  # the same for all
        first, bits = 0.0, set()
        for label, executor in executors.items():
            stamps, used = [time.perf_counter()], cpu()
            found = collect(
                job,
                paths,
                folder / label,
                executor,
                progress=lambda x, s=stamps: s.append(time.perf_counter()),
            )
            whole, used = stamps[-1] - stamps[0], cpu() - used
            steady = (
                (stamps[-1] - stamps[1]) / (logs_written - 1) * logs_written
            )  # without the start of workers and the first compile
            first = first or steady
            bits.add(found.merged().to_bytes())
            size = np.mean([path.stat().st_size for path in (folder / label).glob("*.npz")])
            yield (
                f"{logs_written} logs of {seconds:.0f} s at 1 kHz, {label}",
                f"{logs_written * seconds * RATE / steady / 1e3:.0f}k samples/s",
                f"{first / steady:.2f} times the speed in process",
                f"{whole:.1f} s with start, {used:.1f} s of processors; factor {size / 1e3:.0f} "
                f"kB, log "
                f"{Path(paths[0]).stat().st_size / 1e6:.1f} MB; {len(bits)} different result(s)",
            )


def cpu_of(work: Callable[[], object], repeats: int) -> float:
    """Return the processor time of one call, the median of some. [s]"""
    times = []
    for _ in range(repeats):
        started = time.process_time()
        work()
        times.append(time.process_time() - started)
    return float(np.median(times))


def as_parquet(log: str, group: int) -> str:
    """Write a log as Parquet in row groups; returns the address of all but the last group."""
    import pyarrow
    from pyarrow import parquet

    recording = read_recording(log)
    columns = {"time [s]": recording.time}
    for name, unit, values in recording.columns():
        columns[f"{name} [{unit}]"] = values
    path = Path(log).with_suffix(".parquet")
    parquet.write_table(pyarrow.table(columns), path, row_group_size=group)
    return f"{address_of(path)}#row_groups=0:{len(recording) // group - 1}"


def logs(seconds: float = SECONDS, repeats: int = 7) -> Iterator[Row]:
    """One log reduced to its statistics, from several places."""
    samples = seconds * RATE
    with tempfile.TemporaryDirectory() as name:
        (path,) = written(Path(name), 1, seconds)
        job = job_for([path])
        group = int(samples) // 10
        places = {
            "path, NPZ": (job, path, samples),
            "file://, NPZ": (job, address_of(Path(path)), samples),
            "file://, row groups of Parquet": (job, as_parquet(path, group), samples - group),
            "path, NPZ, untied legs": (replace(job, tie_legs=False), path, samples),
        }
        for label, (job_of_place, log, n_samples) in places.items():
            task = log_task(log)
            content = statistics_of_log(job_of_place, task)
            used = cpu_of(partial(statistics_of_log, job_of_place, task), repeats)
            yield (
                f"one log of {n_samples:.0f} samples, {label}",
                f"{used:.2f} s of processors",
                f"{n_samples / used / 1e3:.0f}k samples/s",
                f"statistics {len(content) / 1e6:.2f} MB, log {task.n_bytes / 1e6:.1f} MB",
            )


def check_and_store(content: bytes, folder: Path) -> None:
    """Do what is done with the answer of a worker."""
    load_log_statistics(content).save(folder)


def costs(seconds: float = SECONDS, entries: int = 300_000, repeats: int = 21) -> Iterator[Row]:
    """What the process that distributes the work does for each log."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths = written(folder, 1, seconds)
        for tied in (True, False):
            job = replace(job_for(paths), tie_legs=tied)
            content = statistics_of_log(job, log_task(paths[0]))
            one = load_log_statistics(content)
            copies = [replace(one, logs=(f"{k:064d}",)) for k in range(MERGED_FILES)]
            legs = f"{len(one.statistics.parameters)} parameters, {len(content) / 1e6:.2f} MB"
            stored = cpu_of(partial(check_and_store, content, folder), repeats)
            yield "checking and storing a file", f"{1e3 * stored:.2f} ms", legs, ""
            loaders = [partial(copy, statistics) for statistics in copies]
            used = cpu_of(partial(merge_all, loaders), repeats // 7 + 1) / (MERGED_FILES - 1)
            size = len(merge_all(loaders).to_bytes())
            yield (
                f"merging two files, mean of {MERGED_FILES} in a tree",
                f"{1e3 * used:.2f} ms",
                legs,
                f"merged {size / 1e6:.2f} MB",
            )
        with LogIndex(folder) as index:
            started = time.process_time()
            for k in range(entries):
                index.add(f"/logs/{k:09d}.npz", f"{k} {k}", f"{k:064d}")
            used = (time.process_time() - started) / entries
            started = time.process_time()
            for k in range(entries):
                index.get(f"/logs/{k:09d}.npz")
            asked = (time.process_time() - started) / entries
        size = (folder / INDEX_FILE).stat().st_size
        yield (
            "entry in the index",
            f"{1e3 * used:.3f} ms",
            f"mean of {entries}; asking for it {1e3 * asked:.3f} ms",
            f"index of {size / 1e6:.1f} MB",
        )
        hashed = cpu_of(partial(log_hash, paths[0]), repeats)
        size = Path(paths[0]).stat().st_size
        yield "hash of a log", f"{1e3 * hashed:.2f} ms", f"{size / 1e6:.1f} MB", ""


def merging(files: int = 512, seconds: float = SECONDS) -> Iterator[Row]:
    """Statistics of many logs merged in one tree, by this process and by workers."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = written(folder, 1, seconds)[0]
        job = job_for([path])
        one = load_log_statistics(statistics_of_log(job, log_task(path)))
        keys = {}
        for k in range(files):
            copied = replace(one, logs=(f"{k:064d}",))
            copied.save(folder)
            keys[str(k)] = copied.key
        collected = Collected(folder=folder, keys=keys)
        executors: dict[str, Executor | None] = {
            "in one process": None,
            "1 worker": Processes(workers=1),
            "2 workers": Processes(workers=2),
        }
        results = set()
        for label, executor in executors.items():
            used = cpu()
            results.add(collected.merged(executor).to_bytes())
            used = cpu() - used
            yield (
                f"merging {files} files, {label}",
                f"{used:.2f} s of processors",
                f"{len(one.statistics.parameters)} parameters",
                f"{len(results)} different result(s)",
            )


def peak_memory() -> float:
    """Return the largest memory of this process. [MB]

    `getrusage` would count what the process that started this one had.
    """
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) * 1.024e-3
    return float("nan")


def memory(lengths: Sequence[int] = (10**5, 10**6, 10**7)) -> Iterator[Row]:
    """Peak memory over the length of a log."""
    with tempfile.TemporaryDirectory() as name:
        for samples in lengths:
            path = Path(name) / f"{samples}.npz"
            subprocess.run(
                [sys.executable, __file__, "--write", str(path), str(samples)], check=True
            )
            done = subprocess.run(
                [sys.executable, __file__, "--condense", str(path)],
                check=True,
                capture_output=True,
                text=True,
            )
            seconds, peak = (float(word) for word in done.stdout.split())
            yield (
                f"one log of {samples:,} samples",
                f"peak memory {peak:.0f} MB",
                f"{samples / seconds / 1e3:.0f}k samples/s",
                f"log {path.stat().st_size / 1e6:.0f} MB",
            )
            path.unlink()


@cache
def measured() -> Estimate:
    """Return the estimate that one log of 5 s gives, for its covariance."""
    model = Model(load_robot("delta"))
    base, log = base_parameters(model, tie_legs=True), VirtualFleet(model=model).record(0, 0)
    settings = choose_processing(model, [log], base).processing
    return WeightedLeastSquares(uncertainty="white").fit(
        log_statistics(model, [log], base, settings)
    )


def drift(
    fleets: int = 200, robots: int = 50, days: int = 30, change: float = 0.1
) -> Iterator[Row]:
    """One joint's dry friction changes by a tenth within 30 days, temperature cycles."""
    estimate, rng = measured(), np.random.default_rng(0)
    root = np.linalg.cholesky(
        estimate.covariance / np.outer(estimate.std, estimate.std) + 1e-9 * np.eye(len(estimate))
    )
    k = estimate.parameters.index(Parameter("leg2.motor.fs"))
    slope = change * 0.9 / estimate.std[k]  # of 0.9 N m, in sigmas of a day
    clock, std = np.arange(float(days)), np.ones((days, len(estimate)))
    found = false = 0
    for _ in range(fleets):
        trends = []
        for robot in range(robots):
            warm = 5 * np.sin(2 * np.pi * clock / 7 + robot) + rng.standard_normal(days)
            values = rng.standard_normal((days, len(estimate))) @ root.T - 0.2 * warm[:, None]
            values[:, k] += slope * clock / (days - 1) * (robot == 0)
            trends.append(trend(clock, values, std, warm))
        result = drifts([each for each in trends if each is not None], 0.01)
        found += bool(result.significant[0, k])
        result_without = result.significant.copy()
        result_without[0, k] = False
        false += bool(result_without.any())
    yield (
        f"{100 * change:.0f} % drift of one dry friction, {days} days, {robots} robots, "
        f"{len(estimate)} parameters",
        f"found in {100 * found / fleets:.1f} % of {fleets} fleets",
        f"any false alarm in {100 * false / fleets:.1f} %",
        f"stated 1 %; {100 * estimate.std[k] / 0.9:.1f} % sigma of a day's log of 5 s",
    )


def common(fleets: int = 50, robots: int = 50) -> Iterator[Row]:
    """Hierarchical values beside those of robots taken alone."""
    estimate, rng = measured(), np.random.default_rng(0)
    p, std = len(estimate), estimate.std
    for n_logs, scatter in ((1, 0.3), (30, 0.3), (30, 1.0)):
        S = estimate.covariance / n_logs
        between = scatter * std * rng.uniform(0, 1, p)
        held, alone, together = [], [], []
        for _ in range(fleets):
            truth = between * rng.standard_normal((robots, p))
            x = truth + rng.multivariate_normal(np.zeros(p), S, robots, method="eigh")
            found = hierarchy(x, np.broadcast_to(S, (robots, p, p)))
            held.append(np.abs(found.values - truth) < 1.96 * found.std)
            alone.append(_rms(x - truth, std))
            together.append(_rms(found.values - truth, std))
        yield (
            f"{robots} robots, {n_logs} logs each, scatter between robots up to {scatter:g} sigma of "
            f"a log",
            f"{100 * np.mean(held):.1f} % of the 95 % intervals hold",
            f"rms error {np.mean(together) / np.mean(alone):.2f} of that of robots taken alone",
            f"{fleets} fleets",
        )


def _rms(error: FloatArray, size: FloatArray) -> float:
    return float(np.sqrt(np.mean((error / size) ** 2)))


def small_rows() -> Iterator[Row]:
    """All cases at a small size."""
    yield from logs(5.0, 1)
    yield from costs(5.0, 100, 1)
    yield from merging(3, 5.0)
    yield from throughput(2, 5.0, {"in process": InProcess()})
    yield from memory([10**4])
    yield from drift(fleets=2, robots=5)
    yield from common(fleets=2, robots=5)


CASES = {
    "logs": logs,
    "costs": costs,
    "merging": merging,
    "throughput": throughput,
    "memory": memory,
    "drift": drift,
    "common": common,
}


def main() -> None:
    """Run what the command line asks for."""
    if sys.argv[1:2] == ["--write"]:
        samples = int(sys.argv[3])
        seconds = min(50.0, samples / RATE / 2)
        fleet = VirtualFleet(model=Model(load_robot("delta")), seconds=seconds, rate=RATE)
        piece = fleet.record(0, 0)
        count = samples // len(piece) // 2
        there = {
            name: np.tile(
                np.concatenate([getattr(piece, name), getattr(piece, name)[::-1]]), (count, 1)
            )
            for name in ("position", "effort")
        }
        type(piece)(
            joints=piece.joints,
            position_units=piece.position_units,
            time=np.arange(len(there["effort"])) / RATE,
            **there,
        ).save(sys.argv[2])
    elif sys.argv[1:2] == ["--condense"]:
        job = Job.of(
            "delta",
            Processing(
                method="time",
                cutoff=20.0,
                decimation=20,
                window=0.005,
                joints_at_rest=(),
                dead_band=dict.fromkeys(load_robot("delta").coordinates, 1e-3),
            ),
            tie_legs=True,
        )
        started = time.process_time()
        statistics_of_log(job, log_task(sys.argv[2]))
        print(time.process_time() - started, peak_memory())
    else:
        cases = {"small": small_rows} if "--small" in sys.argv else CASES
        words = [] if "--small" in sys.argv else sys.argv[1:]
        for word in words or cases:
            for row in cases[word]():
                print(" | ".join(row), flush=True)


if __name__ == "__main__":
    main()
