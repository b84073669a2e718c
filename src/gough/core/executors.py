"""Executors: run tasks in this process, in several processes or on a cluster.

The results do not depend on the executor. An executor is any object
with `run(function, tasks)`. The function must be defined in a module
and the tasks must be plain values, because both are sent to other
processes. Results come in the order in which they are finished.
"""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar, cast

from gough.core.errors import GoughError, InvalidInput
from gough.core.options import Settings, option
from gough.core.source_hash import source_hash

T = TypeVar("T")
# times in a row that processes may die without finishing a task
MAX_WORKER_LOSSES = 3
MAX_TASK_FAULTS = 3  # times that a task is given to another worker
TASKS_PER_WORKER = 4  # tasks that are sent at a time, so that no worker waits
# Environment variable: threads of a kernel in this process. Workers
# have one.
KERNEL_THREADS_VARIABLE = "GOUGH_THREADS"
# Dask setting: environment that its workers are started with.
DASK_WORKER_ENVIRONMENT = "distributed.nanny.pre-spawn-environ"
# Replaces Dask's default, which also returns memory to the system at once:
# blocks of a log then take twice the time.
ONE_THREAD = {f"{library}_NUM_THREADS": 1 for library in ("OMP", "MKL", "OPENBLAS")}


class WorkersLost(GoughError):
    """Workers, or the scheduler, are gone; finished tasks were yielded before."""


class WorkerFault(GoughError):
    """A worker is not fit for the work: other code, another file, no access.

    It says nothing about the task. Executors give the task to another
    worker.
    """


class Answer(NamedTuple):
    """What a worker returns for a task; the answer of another version is told by its hash."""

    code: str  # hash of the worker's source
    outcome: Any  # what the function returned, or the exception that it raised


class Executor(Protocol):
    """An object that runs a function on many tasks."""

    def run(self, function: Callable[[T], Any], tasks: Sequence[T]) -> Iterator[tuple[int, Any]]:
        """Yield the index and the outcome of each task in the order in which they finish.

        The outcome is what the function returned, or the exception that
        it raised. It is a `WorkerFault` only if no worker is fit for
        the task.

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

    If a process dies (out of memory, killed), the others end with it.
    All are started again and continue with the unfinished tasks, unless
    that failed `MAX_WORKER_LOSSES` times in a row.
    """

    workers: int  # number of processes

    def run(self, function: Callable[[T], Any], tasks: Sequence[T]) -> Iterator[tuple[int, Any]]:
        """Yield the index and the outcome of each task as they finish."""
        from concurrent.futures.process import BrokenProcessPool  # here, as its import takes long

        unfinished = dict.fromkeys(range(len(tasks)), 0)
        losses = 0
        while unfinished:
            unfinished_before = len(unfinished)
            try:
                yield from self._run_once(function, tasks, unfinished)
            except BrokenProcessPool as error:
                progress = len(unfinished) < unfinished_before
                losses = 0 if progress else losses + 1
                if losses >= MAX_WORKER_LOSSES:
                    raise _workers_died(tasks, list(unfinished)) from error

    def _run_once(
        self,
        function: Callable[[T], Any],
        tasks: Sequence[T],
        unfinished: dict[int, int],
    ) -> Iterator[tuple[int, Any]]:
        """Run the unfinished tasks in one pool of processes; removes those that finish.

        Args:
            unfinished: Times that workers were not fit for a task, by
                its number.
        """
        import multiprocessing  # here, because these take long to import
        from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait

        keep_running = set(multiprocessing.active_children())
        n_workers = min(self.workers, len(unfinished))
        pool = ProcessPoolExecutor(
            n_workers,
            initializer=_prepare_worker,
            initargs=(source_hash(), function),
            mp_context=multiprocessing.get_context("spawn"),
        )
        pending = list(reversed(unfinished))
        indices: dict[Any, int] = {}
        try:
            while pending or indices:
                while pending and len(indices) < TASKS_PER_WORKER * n_workers:
                    index = pending.pop()
                    indices[pool.submit(_run_in_worker, tasks[index])] = index
                for future in wait(indices, return_when=FIRST_COMPLETED).done:
                    outcome = future.result()
                    index = indices.pop(future)
                    if isinstance(outcome, WorkerFault) and unfinished[index] < MAX_TASK_FAULTS:
                        unfinished[index] += 1
                        pending.insert(0, index)
                        continue
                    del unfinished[index]
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

    A worker whose source differs, or that is not fit for another reason
    (`WorkerFault`), gets no further tasks; its tasks go to other
    workers.
    """

    # of the scheduler, e.g. `tcp://127.0.0.1:8786`; None starts a
    # cluster on this machine
    address: str | None
    workers: int = 2  # processes of a cluster that is started here
    # time to wait for the scheduler, and for a first worker [s]
    patience: float = 9.0
    # why workers were not used, by address
    faults: dict[str, str] = field(default_factory=dict, compare=False)

    def run(self, function: Callable[[T], Any], tasks: Sequence[T]) -> Iterator[tuple[int, Any]]:
        """Yield the index and the outcome of each task as they finish."""
        try:
            import distributed
        except ImportError:
            raise InvalidInput(
                "a cluster needs Dask, which is not installed: pip install gough[cluster]"
            ) from None
        if not tasks:
            return
        with ExitStack() as stack:
            stack.enter_context(_without_dask_messages())
            client = self._connect(stack)
            yield from _ClusterRun(self, client, distributed).run(function, tasks)

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
                    silence_logs=logging.CRITICAL,
                    dashboard_address="127.0.0.1:0",  # a free port, of this machine only
                )
                scheduler = stack.enter_context(cluster)
        try:
            client = Client(scheduler, timeout=self.patience, set_as_default=False)
            stack.enter_context(client)
        except (OSError, TimeoutError, ValueError) as error:
            reason = str(error).splitlines()[0][:120]
            raise InvalidInput(
                f"there is no scheduler at '{self.address}' ({reason}); "
                "start one, or check the address"
            ) from None
        try:
            client.wait_for_workers(1, timeout=self.patience)
        except TimeoutError:
            raise self.no_workers() from None
        return client

    def no_workers(self) -> WorkersLost:
        """Return the error that the scheduler has no workers."""
        return WorkersLost(
            f"the scheduler at '{self.address}' has no workers, and none came within "
            f"{self.patience:g} s; start some with `dask worker {self.address}`"
        )


@contextmanager
def _without_dask_messages() -> Iterator[None]:
    """Silence Dask: what it logs about lost connections says nothing that our errors do not."""
    loggers = []
    for name in list(logging.root.manager.loggerDict):
        if name.startswith(("distributed", "tornado")):
            logger = logging.getLogger(name)
            loggers.append((logger, logger.level))
            logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in loggers:
            logger.setLevel(level)


class _ClusterRun:
    """One run of tasks on a cluster: a few tasks in flight, faulty workers left out."""

    def __init__(self, cluster: Cluster, client: Any, distributed: Any) -> None:
        self.cluster = cluster
        self.client = client
        self.distributed = distributed
        self.code = source_hash()
        self.restricted: dict[Any, set[str]] = {}  # workers of unfinished tasks, where restricted
        self.idle = 0.0  # time without any worker [s]

    def run(self, function: Callable[[T], Any], tasks: Sequence[T]) -> Iterator[tuple[int, Any]]:
        """Yield the index and the outcome of each task as they finish."""
        shared = self._share(function, 0, len(tasks))
        losses = 0  # times in a row that workers were lost without finishing a task
        faults = dict.fromkeys(range(len(tasks)), 0)  # unfinished tasks
        pending = list(reversed(range(len(tasks))))
        indices: dict[Any, int] = {}
        while pending or indices:
            fit = self._fit_workers()
            if self.client.status not in ("running", "connecting"):
                raise self._scheduler_lost(len(tasks) - len(faults), len(tasks))
            for future in self._stranded(fit):
                pending.append(indices.pop(future))
                future.cancel()
            while pending and len(indices) < TASKS_PER_WORKER * max(len(fit), 1):
                index = pending.pop()
                indices[self._submit(shared, tasks[index], fit)] = index
            is_lost = False
            for future in self._finished(list(indices), len(tasks) - len(faults), len(tasks)):
                index = indices.pop(future)
                if future.status == "cancelled":
                    is_lost = True
                    pending.append(index)
                    continue
                losses = 0
                outcome = self._outcome(future, len(tasks) - len(faults), len(tasks))
                if isinstance(outcome, WorkerFault):
                    faults[index] += 1
                    most = MAX_TASK_FAULTS + len(self.cluster.faults)
                    if faults[index] <= most and not self._all_faulty():
                        pending.append(index)
                        continue
                del faults[index]
                yield index, outcome
            if is_lost:  # with the workers that had what all tasks share
                losses += 1
                if losses >= MAX_WORKER_LOSSES:
                    raise _workers_died(tasks, list(faults))
                shared = self._share(function, len(tasks) - len(faults), len(tasks))

    def _share(self, function: Callable[[T], Any], done: int, total: int) -> Any:
        """Send what all tasks share, once: each worker fetches it with its first task."""
        try:
            return self.client.scatter(_packed(function), hash=False)
        except (OSError, TimeoutError, self.distributed.CancelledError):
            if self._scheduler_answers():
                raise self.cluster.no_workers() from None
            raise self._scheduler_lost(done, total) from None

    def _scheduler_answers(self) -> bool:
        """Return whether the scheduler is there, with or without workers."""
        if self.client.status != "running":
            return False
        try:
            self.client.scheduler_info(n_workers=-1)
        except (OSError, TimeoutError, self.distributed.CancelledError):
            return False
        return True

    def _fit_workers(self) -> list[str]:
        """Return the addresses of the workers that are not known to be faulty."""
        return [address for address in self._all_workers() if address not in self.cluster.faults]

    def _all_faulty(self) -> bool:
        """Return whether there are workers and all are known to be faulty.

        A busy scheduler may not answer in time; that does not mean that
        no worker is left.
        """
        workers = self._all_workers()
        return bool(workers) and all(address in self.cluster.faults for address in workers)

    def _all_workers(self) -> list[str]:
        """Return the addresses of all workers; none if the scheduler does not answer."""
        try:
            return list(self.client.scheduler_info(n_workers=-1).get("workers", ()))
        except (OSError, TimeoutError, self.distributed.CancelledError):
            return []

    def _submit(self, shared: Any, task: Any, fit: list[str]) -> Any:
        """Send a task, to fit workers only once another was found; Dask repeats it elsewhere."""
        chosen = fit if self.cluster.faults else None
        future = self.client.submit(
            _run_on_cluster, self.code, shared, _packed(task), pure=False, workers=chosen
        )
        if chosen is not None:
            self.restricted[future] = set(chosen)
        return future

    def _stranded(self, fit: list[str]) -> list[Any]:
        """Return unfinished tasks for workers that are all gone, while there are others."""
        stranded = []
        for future, workers in self.restricted.items():
            if fit and not workers.intersection(fit):
                stranded.append(future)
        for future in stranded:
            del self.restricted[future]
        return stranded

    def _finished(self, futures: list[Any], done: int, total: int) -> list[Any]:
        """Return the tasks that are finished or cancelled; none if that takes more than a moment.

        The scheduler cancels tasks if all workers die that had what the
        tasks share.
        """
        try:
            with self.client.as_current():
                waited = self.distributed.wait(futures, timeout=1.0, return_when="FIRST_COMPLETED")
        except TimeoutError:
            self.idle = 0.0 if self._all_workers() else self.idle + 1.0
            if self.idle > self.cluster.patience:
                raise self.cluster.no_workers() from None
            return []
        except (self.distributed.CancelledError, OSError):
            cancelled = [future for future in futures if future.status == "cancelled"]
            if not cancelled or not self._scheduler_answers():
                raise self._scheduler_lost(done, total) from None
            for future in cancelled:
                self.restricted.pop(future, None)
            return cancelled
        for future in waited.done:
            self.restricted.pop(future, None)
        return list(waited.done)

    def _outcome(self, future: Any, done: int, total: int) -> Any:
        """Return the outcome of a finished task; a `WorkerFault` marks its worker."""
        try:
            answer, worker = future.result()
        except self.distributed.CancelledError:
            raise self._scheduler_lost(done, total) from None
        except self.distributed.KilledWorker as error:
            return WorkersLost(f"the cluster gave up a task: {error}")
        except Exception as error:  # the worker cannot even call what it was sent
            return WorkerFault(
                f"a worker cannot run this version of Gough ({type(error).__name__}: {error}); "
                "install the same version everywhere"
            )
        if answer.code != self.code:
            outcome: Any = other_code(answer.code, self.code)
        else:
            outcome = answer.outcome
        if isinstance(outcome, WorkerFault):
            self.cluster.faults[worker] = str(outcome)
            return WorkerFault(f"worker {worker}: {outcome}")
        return outcome

    def _scheduler_lost(self, done: int, total: int) -> WorkersLost:
        return WorkersLost(
            f"the scheduler at '{self.cluster.address}' went away after {done} of {total} "
            "tasks; finished tasks were kept: start again"
        )


def other_code(code: str, expected: str) -> WorkerFault:
    """Return the fault of a worker with other source."""
    return WorkerFault(
        f"it has other source of Gough ({code[:12]}, expected {expected[:12]}); install the "
        "same version everywhere"
    )


class _Worker:
    """What a worker process was started for."""

    code: ClassVar[str] = ""  # hash of the source that the work is for
    function: ClassVar[Callable[[Any], Any]]


def _prepare_worker(code: str, function: Callable[[Any], Any]) -> None:
    """Keep the function, use one thread for kernels, and leave Ctrl-C to the parent process."""
    os.environ[KERNEL_THREADS_VARIABLE] = "1"
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _Worker.code = code
    _Worker.function = staticmethod(function)


def _run_in_worker(task: Any) -> Any:
    if source_hash() != _Worker.code:
        return other_code(source_hash(), _Worker.code)
    return outcome_of(_Worker.function, task)


def outcome_of(function: Callable[[T], Any], task: T) -> Any:
    """Return what a function makes of a task, or the exception that it raises.

    Exceptions are returned because a pool takes some of them for
    failures of its own.
    """
    try:
        return function(task)
    except Exception as error:
        return error


def _run_on_cluster(code: str, function: bytes, task: bytes) -> tuple[Answer, str]:
    """Return the answer to a task, and the address of this worker.

    Nothing is unpacked, and nothing is done, by a worker with other
    source.
    """
    from distributed import get_worker

    os.environ[KERNEL_THREADS_VARIABLE] = "1"
    address = get_worker().address
    if source_hash() != code:
        return Answer(source_hash(), None), address
    return Answer(code, outcome_of(_unpacked_function(function), _unpacked(task))), address


@lru_cache(maxsize=2)
def _unpacked_function(function: bytes) -> Callable[[Any], Any]:
    """Return a function, the same object for all tasks of a run."""
    return cast(Callable[[Any], Any], _unpacked(function))


def _packed(value: object) -> bytes:
    """Return a value as the bytes in which Dask itself sends it; they never go into a file."""
    from distributed.protocol.pickle import dumps

    return bytes(dumps(value))


def _unpacked(packed: bytes) -> object:
    """Return the value that was packed for Dask."""
    from distributed.protocol.pickle import loads

    return loads(packed)


@dataclass(frozen=True, kw_only=True)
class WorkSettings(Settings):
    """Where work on many logs or simulations is done; the results are identical."""

    heading = "Many logs, several processors"

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
