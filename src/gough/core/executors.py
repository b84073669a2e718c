"""Executors: run tasks in this process, in several processes or on a cluster.

The results do not depend on the executor. An executor is any object with `run(function,
tasks)`. The function must be defined in a module and the tasks must be plain values,
because both are sent to other processes. Results come in the order in which they are
finished.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from logging import CRITICAL
from typing import Any, Protocol, TypeVar

from gough.core.errors import GoughError, InvalidInput
from gough.core.options import Settings, option

T = TypeVar("T")
MAX_WORKER_LOSSES = 3  # times in a row that processes may die without finishing a task
# Environment variable: threads of a kernel in this process. Workers have one.
KERNEL_THREADS_VARIABLE = "GOUGH_THREADS"
# Dask setting: environment that its workers are started with.
DASK_WORKER_ENVIRONMENT = "distributed.nanny.pre-spawn-environ"
# Replaces Dask's default, which also returns memory to the system at once: blocks of a log then
# take twice the time.
ONE_THREAD = {f"{library}_NUM_THREADS": 1 for library in ("OMP", "MKL", "OPENBLAS")}


class WorkersLost(GoughError):
    """Workers, or the scheduler, are gone; finished tasks were yielded before."""


class Executor(Protocol):
    """An object that runs a function on many tasks."""

    def run(self, function: Callable[[T], Any], tasks: Sequence[T]) -> Iterator[tuple[int, Any]]:
        """Yield the index and the outcome of each task in the order in which they finish.

        The outcome is what the function returned, or the exception that it raised.

        Raises:
            WorkersLost: No worker can continue.
        """


@dataclass(frozen=True)
class InProcess:
    """Run the tasks one after the other in this process."""

    def run(self, function: Callable[[T], Any], tasks: Sequence[T]) -> Iterator[tuple[int, Any]]:
        """Yield the index and the outcome of each task, in order."""
        for index, task in enumerate(tasks):
            yield index, outcome_of(function, task)


@dataclass(frozen=True, kw_only=True)
class Processes:
    """Run the tasks in several new processes of this machine.

    If a process dies (out of memory, killed), the others end with it. All are started again
    and continue with the unfinished tasks, unless that failed `MAX_WORKER_LOSSES` times in
    a row.
    """

    workers: int  # number of processes

    def run(self, function: Callable[[T], Any], tasks: Sequence[T]) -> Iterator[tuple[int, Any]]:
        """Yield the index and the outcome of each task as they finish."""
        from concurrent.futures.process import (
            BrokenProcessPool,
        )  # here, as its import takes long

        unfinished = list(range(len(tasks)))
        losses = 0
        while unfinished:
            unfinished_before = len(unfinished)
            try:
                yield from self._run_once(function, tasks, unfinished)
            except BrokenProcessPool as error:
                progress = len(unfinished) < unfinished_before
                losses = 0 if progress else losses + 1
                if losses >= MAX_WORKER_LOSSES:
                    raise _workers_died(tasks, unfinished) from error

    def _run_once(
        self,
        function: Callable[[T], Any],
        tasks: Sequence[T],
        unfinished: list[int],
    ) -> Iterator[tuple[int, Any]]:
        """Run the unfinished tasks in one pool of processes; removes those that finish."""
        import multiprocessing  # here, because these take long to import
        from concurrent.futures import ProcessPoolExecutor, as_completed

        keep_running = set(multiprocessing.active_children())
        pool = ProcessPoolExecutor(
            min(self.workers, len(unfinished)),
            initializer=_prepare_worker,
            mp_context=multiprocessing.get_context("spawn"),
        )
        try:
            indices = {}
            for index in unfinished:
                future = pool.submit(outcome_of, function, tasks[index])
                indices[future] = index
            for future in as_completed(list(indices)):
                outcome = future.result()
                index = indices.pop(future)
                unfinished.remove(index)
                yield index, outcome
            # all tasks are finished: the processes end by themselves
            keep_running |= set(multiprocessing.active_children())
        finally:
            for process in set(multiprocessing.active_children()) - keep_running:
                process.terminate()
            pool.shutdown(wait=True, cancel_futures=True)


def _workers_died(tasks: Sequence[Any], unfinished: Sequence[int]) -> WorkersLost:
    first = f"{tasks[unfinished[0]]!r:.200}"
    return WorkersLost(
        f"worker processes died {MAX_WORKER_LOSSES} times in a row without finishing a task; "
        f"{len(unfinished)} of {len(tasks)} tasks are unfinished, first {first}; "
        "are they out of memory? Use fewer workers; finished tasks were kept"
    )


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """Run the tasks on a Dask cluster (`pip install gough[cluster]`).

    Its workers need the same version of Gough.
    """

    # of the scheduler, e.g. `tcp://127.0.0.1:8786`; None starts a cluster on this machine
    address: str | None
    workers: int = 2  # processes of a cluster that is started here
    patience: float = 10.0  # time to wait for the scheduler [s]

    def run(self, function: Callable[[T], Any], tasks: Sequence[T]) -> Iterator[tuple[int, Any]]:
        """Yield the index and the outcome of each task as they finish."""
        try:
            from distributed import CancelledError, as_completed
        except ImportError:
            raise InvalidInput(
                "a cluster needs Dask, which is not installed: pip install gough[cluster]"
            ) from None
        if not tasks:
            return
        with ExitStack() as stack:
            client = self._connect(stack)
            indices = {}
            for index, task in enumerate(tasks):
                future = client.submit(_run_on_cluster, function, task, pure=False)
                indices[future] = index
            for future in as_completed(list(indices), loop=client.loop):
                try:
                    outcome = future.result()
                except CancelledError as error:
                    done = len(tasks) - len(indices)
                    raise WorkersLost(
                        f"the scheduler at '{self.address}' went away after {done} of {len(tasks)} "
                        "tasks; finished tasks were kept: start again"
                    ) from error
                except Exception as error:  # the worker died too often with this task
                    outcome = WorkersLost(f"the cluster gave up a task: {error}")
                yield indices.pop(future), outcome

    def _connect(self, stack: ExitStack) -> Any:
        """Return a Dask client; the stack closes it, and a cluster that was started for it."""
        from dask.config import set as dask_settings
        from distributed import Client, LocalCluster

        scheduler: Any = self.address
        if not scheduler:
            with dask_settings({DASK_WORKER_ENVIRONMENT: ONE_THREAD}):
                cluster = LocalCluster(
                    n_workers=self.workers,
                    threads_per_worker=1,
                    silence_logs=CRITICAL,
                    dashboard_address=None,
                )
                scheduler = stack.enter_context(cluster)
        try:
            client = Client(scheduler, timeout=self.patience, set_as_default=False)
            return stack.enter_context(client)
        except (OSError, TimeoutError, ValueError) as error:
            reason = str(error).splitlines()[0][:120]
            raise InvalidInput(
                f"there is no scheduler at '{self.address}' ({reason}); "
                "start one, or check the address"
            ) from None


def _prepare_worker() -> None:
    """Use one thread for kernels, and leave Ctrl-C to the parent process."""
    os.environ[KERNEL_THREADS_VARIABLE] = "1"
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def outcome_of(function: Callable[[T], Any], task: T) -> Any:
    """Return what a function makes of a task, or the exception that it raises.

    Exceptions are returned because a pool takes some of them for failures of its own.
    """
    try:
        return function(task)
    except Exception as error:
        return error


def _run_on_cluster(function: Callable[[T], Any], task: T) -> Any:
    os.environ[KERNEL_THREADS_VARIABLE] = "1"
    return outcome_of(function, task)


@dataclass(frozen=True, kw_only=True)
class WorkSettings(Settings):
    """Where work on many logs or simulations is done; the results are identical."""

    workers: int | None = option(
        None,
        "Processes that share the work; logs are then stored as sufficient statistics.",
        least=1,
    )
    cluster: str | None = option(
        None,
        "Address of a Dask scheduler, e.g. tcp://127.0.0.1:8786, or local to start one on this "
        "machine.",
    )

    @property
    def parallel(self) -> bool:
        """Work is shared by several processes."""
        return self.workers is not None or self.cluster is not None

    @property
    def executor(self) -> Executor:
        """The executor that these settings ask for."""
        if self.cluster is not None:
            address = None if self.cluster == "local" else self.cluster
            return Cluster(address=address, workers=self.workers or 2)
        if self.workers is None or self.workers == 1:
            return InProcess()
        return Processes(workers=self.workers)
