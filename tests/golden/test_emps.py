"""EMPS, the field's reference chain for one axis: published IDIM-LS digits, through our readers and filters.

Janot, Gautier, Brunot, "Data set and reference models of EMPS", 2019: butter(4, 100 Hz) + filtfilt on the position,
central differences, the first 49 samples dropped, decimation by 10 as MATLAB does, ordinary least squares.
"""

from pathlib import Path

import numpy as np
import pytest

from gough.core.regression import Regression, condense
from gough.estimators.linear.least_squares import LeastSquares
from gough.logs.readers import read_recording
from gough.logs.recording import Recording
from gough.processing.dead_band import default_dead_band, velocity_sign
from gough.processing.decimation import decimate_regression, decimate_regression_blocks
from gough.processing.filters import default_filters, differentiate, edge_samples

ROOT = Path(__file__).parents[2]
DATA = ROOT.parent / "shared" / "data" / "emps" / "DATA_EMPS.mat"
DROP = slice(49, None)

pytestmark = pytest.mark.skipif(not DATA.exists(), reason="EMPS data are not here")


@pytest.fixture(scope="module")
def recording() -> Recording:
    return read_recording(DATA, ROOT / "examples" / "emps.toml")


def regression(recording: Recording, asymmetric: bool = False) -> Regression:
    rate = round(recording.rate)
    motion = differentiate(recording.position, rate, cutoff=100.0, order=4)
    qd = motion.velocity[DROP, 0]
    sign = velocity_sign(qd, 0.0)
    if asymmetric:
        up, down = qd > 0, qd < 0
        columns = [motion.acceleration[DROP, 0], qd * up, sign * up, qd * down, sign * down]
        names = ("M", "Fv+", "Fc+", "Fv-", "Fc-")
    else:
        columns = [motion.acceleration[DROP, 0], qd, sign, np.ones_like(qd)]
        names = ("M", "Fv", "Fc", "offset")
    return Regression(regressor=np.column_stack(columns)[:, None, :], effort=recording.effort[DROP], rows=("slider",),
                      row_units=("N",), parameters=names, units=("",) * len(names), time=recording.time[DROP])


def digits(values) -> list[str]:
    return [f"{v:.4f}" for v in values]


def test_the_reference_axis_gives_every_published_digit(recording: Recording) -> None:
    small = decimate_regression(regression(recording), 10)
    estimate = LeastSquares(uncertainty="white").fit(small)
    samples, p = len(small), 4
    assert digits(estimate.values) == ["95.1089", "203.5034", "20.3935", "-3.1648"]
    # The reference divides the squared residuals by N - 1, not by N - p.
    assert digits(estimate.std * np.sqrt((samples - p) / (samples - 1))) == ["0.1085", "1.1460", "0.1012", "0.0444"]
    assert digits([np.linalg.cond(small.regressor[:, 0, :])]) == ["25.9883"]
    assert digits(100 * estimate.residual_relative) == ["4.0834"]


def test_asymmetric_friction_gives_the_published_digits_too(recording: Recording) -> None:
    small = decimate_regression(regression(recording, asymmetric=True), 10)
    values = LeastSquares(uncertainty="white").fit(small).values
    assert digits(values) == ["95.1540", "166.7061", "20.1440", "240.4236", "20.6277"]


def test_streaming_decimation_agrees_within_the_standard_deviations(recording: Recording) -> None:
    whole = regression(recording)
    estimate = LeastSquares(uncertainty="white").fit(decimate_regression(whole, 10))
    streamed = LeastSquares(uncertainty="white").fit(condense(decimate_regression_blocks(whole.blocks(1000), 10)))
    assert np.all(np.abs(streamed.values - estimate.values) < 3 * estimate.std)


def test_default_rules_come_close_to_the_published_model(recording: Recording) -> None:
    """The reference takes 100 Hz and decimation by 10 from a known bandwidth of 20 Hz; ours come from the data."""
    chosen = default_filters(recording)
    assert 40.0 <= chosen.cutoff <= 400.0
    motion = differentiate(recording.position, recording.rate, chosen.cutoff)
    band = default_dead_band(recording.position, recording.rate, chosen.cutoff)
    edge = edge_samples(recording.rate, chosen.cutoff)
    keep = slice(edge, -edge)
    columns = [motion.acceleration[keep], motion.velocity[keep], velocity_sign(motion.velocity[keep], band),
               np.ones_like(motion.velocity[keep])]
    problem = Regression(regressor=np.stack(columns, axis=-1), effort=recording.effort[keep], rows=("slider",),
                         row_units=("N",), parameters=("M", "Fv", "Fc", "offset"), units=("",) * 4)
    values = LeastSquares(uncertainty="white").fit(decimate_regression(problem, chosen.decimation)).values
    assert values == pytest.approx([95.1089, 203.5034, 20.3935, -3.1648], rel=0.02)
