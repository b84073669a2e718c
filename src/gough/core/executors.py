"""Where work is done: in this process, in several, or on a cluster.

What comes out does not depend on it.

An executor is an object with `run(function, tasks)`, of any origin. The function is one of a module
and the tasks plain values, because both travel to other processes. Results come as they are
finished; whoever needs an order sorts them.
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
LOST = 3  # times in a row that processes may die without finishing anything
THREADS = "GOUGH_THREADS"  # threads of a kernel in this process; workers have one
SPAWNED = "distributed.nanny.pre-spawn-environ"  # of Dask: what its workers are started with
# In place of Dask's own, which also returns memory to the system at once: blocks of a log then cost
# twice the time.
ONE_THREAD = {f"{library}_NUM_THREADS": 1 for library in ("OMP", "MKL", "OPENBLAS")}


class WorkersLost(GoughError):
    """Workers, or the scheduler, are gone; what was finished is there."""


class Executor(Protocol):
    """Something that runs a function on many tasks."""

    def run(self, function: Callable[[T], Any], tasks: Sequence[T]) -> Iterator[tuple[int, Any]]:
        """Yield the number of each task and what became of it, as they finish: a result, or the
        exception it raised.

        `WorkersLost` where no one is left to do the work.
        """


@dataclass(frozen=True)
class InProcess:
    """One task after the other, here."""

    def run(self, function: Callable[[T], Any], tasks: Sequence[T]) -> Iterator[tuple[int, Any]]:
        for k, task in enumerate(tasks):
            yield k, attempt(function, task)


@dataclass(frozen=True, kw_only=True)
class Processes:
    """Several processes of this machine, started afresh so that nothing of this one is shared.

    A process that dies (out of memory, killed) takes the others with it; all are started again and
    go on with what is not finished, unless that was in vain `LOST` times in a row.
    """

    workers: int

    def run(self, function: Callable[[T], Any], tasks: Sequence[T]) -> Iterator[tuple[int, Any]]:
        import multiprocessing  # here, because these take long to import
        from concurrent.futures import ProcessPoolExecutor, as_completed
        from concurrent.futures.process import BrokenProcessPool

        left, lost = list(range(len(tasks))), 0
        while left:
            before, others = len(left), set(multiprocessing.active_children())
            pool = ProcessPoolExecutor(
                min(self.workers, len(left)),
                initializer=_be_a_worker,
                mp_context=multiprocessing.get_context("spawn"),
            )
            try:
                coming = {pool.submit(attempt, function, tasks[k]): k for k in left}
                for future in as_completed([*coming]):
                    result = future.result()
                    k = coming.pop(future)
                    left.remove(k)
                    yield k, result
                others |= set(multiprocessing.active_children())  # they end by themselves
            except BrokenProcessPool as error:
                lost = lost + 1 if len(left) == before else 0
                if lost >= LOST:
                    raise WorkersLost(
                        f"worker processes died {LOST} times in a row without finishing anything, "
                        f"{len(left)} of "
                        f"{len(tasks)} tasks are left, first {tasks[left[0]]!r:.200}; are they out "
                        f"of memory? Use "
                        "fewer workers; what is finished was kept"
                    ) from error
            finally:
                for process in (
                    set(multiprocessing.active_children()) - others
                ):  # nobody waits for their results
                    process.terminate()
                pool.shutdown(wait=True, cancel_futures=True)


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """A cluster of Dask (`pip install gough[cluster]`), whose workers have the same version of
    Gough.
    """

    address: (
        str | None
    )  # of its scheduler, e.g. `tcp://127.0.0.1:8786`; None starts one on this machine
    workers: int = 2  # processes of a cluster that is started here
    patience: float = 10.0  # time to wait for the scheduler [s]

    def run(self, function: Callable[[T], Any], tasks: Sequence[T]) -> Iterator[tuple[int, Any]]:
        try:
            from dask.config import set as dask_settings
            from distributed import CancelledError, Client, LocalCluster, as_completed
        except ImportError:
            raise InvalidInput(
                "a cluster needs Dask, which is not installed: pip install gough[cluster]"
            ) from None
        if not tasks:
            return
        with ExitStack() as opened:
            with dask_settings({SPAWNED: ONE_THREAD}):
                where = self.address or opened.enter_context(
                    LocalCluster(
                        n_workers=self.workers,
                        threads_per_worker=1,
                        silence_logs=CRITICAL,
                        dashboard_address=None,
                    )
                )
            try:
                client = opened.enter_context(
                    Client(where, timeout=self.patience, set_as_default=False)
                )
            except (OSError, TimeoutError, ValueError) as error:
                raise InvalidInput(
                    f"there is no scheduler at '{self.address}' "
                    f"({str(error).splitlines()[0][:120]}); "
                    "start one, or check the address"
                ) from None
            futures = {
                client.submit(_as_worker, function, task, pure=False): k
                for k, task in enumerate(tasks)
            }
            for future in as_completed(list(futures), loop=client.loop):
                try:
                    result = future.result()
                except CancelledError as error:
                    done = len(tasks) - len(futures)
                    raise WorkersLost(
                        f"the scheduler at '{self.address}' went away after {done} of {len(tasks)} "
                        "tasks; what is finished was kept: start again"
                    ) from error
                except Exception as error:  # the worker died too often with it
                    result = WorkersLost(f"the cluster gave up a task: {error}")
                yield futures.pop(future), result


def _be_a_worker() -> None:
    """Make this process one of several on its machine: kernels take one thread, Ctrl-C is for the
    one who asked.
    """
    os.environ[THREADS] = "1"
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def attempt(function: Callable[[T], Any], task: T) -> Any:
    """Return what a function makes of a task, or the exception: an error that others may mean for
    them alone.
    """
    try:
        return function(task)
    except Exception as error:
        return error


def _as_worker(function: Callable[[T], Any], task: T) -> Any:
    os.environ[THREADS] = "1"
    return attempt(function, task)


@dataclass(frozen=True, kw_only=True)
class WorkSettings(Settings):
    """Where work on many logs or trials is done; the result is the same to the last bit."""

    workers: int | None = option(
        None, "Processes that share the work; logs then go through factor files.", least=1
    )
    cluster: str | None = option(
        None,
        "Address of a Dask scheduler, e.g. tcp://127.0.0.1:8786, or local for one of its own on "
        "this machine.",
    )

    @property
    def spread(self) -> bool:
        """Work is to be shared."""
        return self.workers is not None or self.cluster is not None

    @property
    def executor(self) -> Executor:
        """What does the work."""
        if self.cluster is not None:
            return Cluster(
                address=None if self.cluster == "local" else self.cluster, workers=self.workers or 2
            )
        return (
            InProcess() if self.workers in (None, 1) else Processes(workers=int(self.workers or 1))
        )
