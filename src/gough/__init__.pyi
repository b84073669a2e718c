# What is public: read by type checkers, and by __init__.py, which loads each name on first use.
from gough.app.identify import identify as identify, identify_logs as identify_logs
from gough.app.report import write_report as write_report
from gough.app.studies.study_file import run_study as run_study
from gough.bounding.bounds import BoundsSettings as BoundsSettings, bounds as bounds
from gough.core.errors import GoughError as GoughError
from gough.core.notices import Notice as Notice
from gough.core.trajectory import load_trajectory as load_trajectory
from gough.engine import (
    Check as Check,
    Model as Model,
    base_parameters as base_parameters,
    check as check,
)
from gough.engine.check import CheckSettings as CheckSettings
from gough.excitation import Design as Design, DesignSettings as DesignSettings, design as design
from gough.export.controller import controller_code as controller_code
from gough.fitting.estimate import Enclosure as Enclosure, Estimate as Estimate
from gough.fleets.fleet import (
    Fleet as Fleet,
    FleetSettings as FleetSettings,
    fleet as fleet,
)
from gough.fleets.history import FleetLog as FleetLog
from gough.identification import (
    Identification as Identification,
    IdentifySettings as IdentifySettings,
    load_identification as load_identification,
)
from gough.identification.compare import (
    CompareSettings as CompareSettings,
    Comparison as Comparison,
    compare as compare,
)
from gough.identification.diagnosis import Diagnosis as Diagnosis
from gough.identification.many_logs import FactorSettings as FactorSettings
from gough.identification.payload import (
    PayloadResult as PayloadResult,
    PayloadSettings as PayloadSettings,
    payload as payload,
)
from gough.identification.validation import Validation as Validation, validate as validate
from gough.logs.readers import open_recording as open_recording, read_recording as read_recording
from gough.logs.recording import Recording as Recording
from gough.logs.survey import Survey as Survey, survey as survey
from gough.mechanism import (
    Mechanism as Mechanism,
    bundled_robots as bundled_robots,
    load_robot as load_robot,
)
from gough.processing import (
    Processing as Processing,
    log_statistics as log_statistics,
    process as process,
)
from gough.verdict.diagnosis.diagnose import (
    DiagnoseSettings as DiagnoseSettings,
    diagnose as diagnose,
)
from gough.verdict.diagnosis.foresee import Foresight as Foresight, foresee as foresee
from gough.virtual import (
    SimulateSettings as SimulateSettings,
    Simulation as Simulation,
    record as record,
    simulate as simulate,
)

__version__: str
