# Written by docs/stub.py: the public names, and the options of functions.

from collections.abc import Callable, Mapping, Sequence

from numpy.typing import ArrayLike

from gough.app.report import write_report as write_report
from gough.app.studies.study_file import run_study as run_study
from gough.bounding.bounds import BoundsSettings as BoundsSettings
from gough.bounding.solve import Solver
from gough.core.errors import GoughError as GoughError
from gough.core.executors import WorkSettings
from gough.core.notices import Notice as Notice
from gough.core.parameters import BaseParameters
from gough.core.trajectory import Trajectory, load_trajectory as load_trajectory
from gough.engine import Check as Check, Model as Model, Robot, base_parameters as base_parameters
from gough.engine.check import CheckSettings as CheckSettings
from gough.engine.loops import By
from gough.excitation import Design as Design, DesignSettings as DesignSettings
from gough.excitation.criteria import Criterion
from gough.excitation.design import Run
from gough.excitation.solver import Progress
from gough.export.controller import controller_code as controller_code
from gough.fitting.block_statistics import BlockStatistics
from gough.fitting.estimate import Enclosure as Enclosure, Estimate as Estimate
from gough.fitting.problem import Estimator
from gough.fleets.fleet import Fleet as Fleet, FleetSettings as FleetSettings
from gough.fleets.history import FleetLog as FleetLog
from gough.identification import (
    Identification as Identification,
    IdentifySettings as IdentifySettings,
    load_identification as load_identification,
)
from gough.identification.compare import (
    CompareSettings as CompareSettings,
    Comparison as Comparison,
)
from gough.identification.diagnosis import Diagnosis as Diagnosis
from gough.identification.expected_errors import (
    ExpectedErrors as ExpectedErrors,
    expected_errors as expected_errors,
)
from gough.identification.many_logs import FactorSettings as FactorSettings
from gough.identification.payload import (
    PayloadResult as PayloadResult,
    PayloadSettings as PayloadSettings,
)
from gough.identification.validation import Validation as Validation, validate as validate
from gough.logs.readers import Log, read_recording as read_recording
from gough.logs.recording import Recording as Recording
from gough.logs.recording_sources import open_recording as open_recording
from gough.logs.survey import Survey as Survey, survey as survey
from gough.mechanism import (
    Limits,
    Mechanism as Mechanism,
    bundled_robots as bundled_robots,
    load_robot as load_robot,
)
from gough.processing import (
    Processing as Processing,
    log_statistics as log_statistics,
    process as process,
)
from gough.processing.many_logs import Bad
from gough.processing.settings import Method, Repeats
from gough.verdict.diagnose import DiagnoseSettings as DiagnoseSettings
from gough.virtual import (
    SimulateSettings as SimulateSettings,
    Simulation as Simulation,
    record as record,
)
from gough.virtual.closed_loop import Designed
from gough.virtual.controllers import Controller
from gough.virtual.plant import Actuator, PlantFactory
from gough.virtual.simulation import Feedback

__version__: str

def bounds(
    model: Robot,
    recordings: Log | Sequence[Log],
    settings: BoundsSettings | None = None,
    *,
    result: Identification | None = None,
    gains: Mapping[str, float] | None = None,
    error_bound: float = ...,
    solver: Solver = "exact",
    outliers: int = 0,
    prior: tuple[float, float] | Mapping[str, tuple[float, float]] | None = None,
    threshold: float | None = None,
    position_error: float | None = None,
    tie_legs: bool = False,
    processing: Processing = ...,
    method: Method = "auto",
    cutoff: float | None = None,
    decimation: int | None = None,
    dead_band: float | Mapping[str, float] | None = None,
    window: float | None = None,
    joints_at_rest: tuple[str, ...] | None = None,
    repeats: Repeats = "declared",
    harmonics: int = 5,
    frequency: float | None = None,
) -> Enclosure: ...
def check(
    model: Robot, settings: CheckSettings | None = None, *, tie_legs: bool = False
) -> Check: ...
def compare(
    results: Sequence[tuple[Robot, Identification]],
    recordings: Log | Sequence[Log] = (),
    settings: CompareSettings | None = None,
    *,
    labels: Sequence[str] | None = None,
    false_alarms: float = 0.05,
    change: float | None = None,
    error: float | None = None,
) -> Comparison: ...
def design(
    model: Robot,
    settings: DesignSettings | None = None,
    *,
    runs: Sequence[Run] | None = None,
    limits: Mapping[str, Limits] | None = None,
    base: BaseParameters | None = None,
    covariance: ArrayLike | None = None,
    progress: Progress | None = None,
    harmonics: int = 5,
    frequency: float | None = None,
    coordinates: By | None = None,
    criterion: Criterion = "d",
    at_rest: bool = False,
    optimise_frequency: bool = False,
    tie_legs: bool = False,
    singularity: float = 0.1,
    samples: int | None = None,
    starts: int = 4,
    seed: int = 0,
    iterations: int = 300,
    tolerance: float = 0.002,
) -> Design: ...
def diagnose(
    model: Robot,
    recordings: Log | Sequence[Log],
    settings: DiagnoseSettings | None = None,
    *,
    held_out: Log | Sequence[Log] = (),
    tie_legs: bool = False,
    gains: Mapping[str, float] | None = None,
    processing: Processing = ...,
    method: Method = "auto",
    cutoff: float | None = None,
    decimation: int | None = None,
    dead_band: float | Mapping[str, float] | None = None,
    window: float | None = None,
    joints_at_rest: tuple[str, ...] | None = None,
    repeats: Repeats = "declared",
    harmonics: int = 5,
    frequency: float | None = None,
) -> Diagnosis: ...
def fleet(
    robot: str,
    logs: Sequence[FleetLog],
    settings: FleetSettings | None = None,
    *,
    progress: Callable[[float], None] | None = None,
    period: float = 1.0,
    false_alarms: float = 0.01,
    tie_legs: bool = False,
    gains: Mapping[str, float] | None = None,
    carrying: str | None = None,
    diagnosed: int = 6,
    processing: Processing = ...,
    method: Method = "auto",
    cutoff: float | None = None,
    decimation: int | None = None,
    dead_band: float | Mapping[str, float] | None = None,
    window: float | None = None,
    joints_at_rest: tuple[str, ...] | None = None,
    repeats: Repeats = "declared",
    harmonics: int = 5,
    frequency: float | None = None,
    many: FactorSettings = ...,
    factors: str | None = None,
    bad: Bad = "refuse",
    work: WorkSettings = ...,
    workers: int | None = None,
    cluster: str | None = None,
) -> Fleet: ...
def identify(
    model: Robot,
    recordings: Log | Sequence[Log],
    settings: IdentifySettings | None = None,
    *,
    loaded: Log | Sequence[Log] | None = None,
    held_out: Log | Sequence[Log] | None = None,
    whole: BlockStatistics | None = None,
    progress: Callable[[float], None] | None = None,
    estimator: str | Estimator = "auto",
    payload: str | None = None,
    carrying: str | None = None,
    essential: bool = False,
    ratio: float = 10.0,
    tie_legs: bool = False,
    structures: bool = False,
    terms: str = "given",
    total_mass: float | None = None,
    gains: Mapping[str, float] | None = None,
    fixed: Mapping[str, float] | None = None,
    tied: Mapping[str, str] | None = None,
    bounds: Mapping[str, tuple[float, float]] | None = None,
    find_gains: bool = False,
    processing: Processing = ...,
    method: Method = "auto",
    cutoff: float | None = None,
    decimation: int | None = None,
    dead_band: float | Mapping[str, float] | None = None,
    window: float | None = None,
    joints_at_rest: tuple[str, ...] | None = None,
    repeats: Repeats = "declared",
    harmonics: int = 5,
    frequency: float | None = None,
) -> Identification: ...
def identify_logs(
    robot: str,
    logs: Sequence[str],
    settings: IdentifySettings | None = None,
    *,
    work: FactorSettings | None = None,
    held_out: Sequence[Recording] = (),
    progress: Callable[[float], None] | None = None,
    estimator: str | Estimator = "auto",
    payload: str | None = None,
    carrying: str | None = None,
    essential: bool = False,
    ratio: float = 10.0,
    tie_legs: bool = False,
    structures: bool = False,
    terms: str = "given",
    total_mass: float | None = None,
    gains: Mapping[str, float] | None = None,
    fixed: Mapping[str, float] | None = None,
    tied: Mapping[str, str] | None = None,
    bounds: Mapping[str, tuple[float, float]] | None = None,
    find_gains: bool = False,
    processing: Processing = ...,
    method: Method = "auto",
    cutoff: float | None = None,
    decimation: int | None = None,
    dead_band: float | Mapping[str, float] | None = None,
    window: float | None = None,
    joints_at_rest: tuple[str, ...] | None = None,
    repeats: Repeats = "declared",
    harmonics: int = 5,
    frequency: float | None = None,
) -> Identification: ...
def payload(
    model: Robot,
    recordings: Log | Sequence[Log],
    settings: PayloadSettings | None = None,
    *,
    result: Identification | None = None,
    values: ArrayLike | None = None,
    gains: Mapping[str, float] | None = None,
    mass: float | None = None,
    at: str | Sequence[float] | None = None,
    reach: float | None = None,
    carrying: str | None = None,
    forgetting: float | None = None,
    processing: Processing = ...,
    method: Method = "auto",
    cutoff: float | None = None,
    decimation: int | None = None,
    dead_band: float | Mapping[str, float] | None = None,
    window: float | None = None,
    joints_at_rest: tuple[str, ...] | None = None,
    repeats: Repeats = "declared",
    harmonics: int = 5,
    frequency: float | None = None,
) -> PayloadResult: ...
def simulate(
    model: Robot,
    trajectory: Trajectory | Designed,
    settings: SimulateSettings | None = None,
    *,
    values: ArrayLike | Mapping[str, float] | None = None,
    gains: ArrayLike | None = None,
    believed_gains: ArrayLike | None = None,
    actuator: Actuator | None = None,
    feedback: Feedback | None = None,
    progress: Callable[[float], None] | None = None,
    controller: str | Controller = "ctc",
    plant: str | PlantFactory = "gough",
    payload: str | Sequence[str | None] | None = None,
    channels: Mapping[str, float] | None = None,
    periods: int | None = None,
    rate: float | None = None,
    sampling: float | None = None,
    lead_in: int = 1,
    dead_band: float | Sequence[float] | None = None,
    substeps: int | None = None,
) -> Simulation: ...
