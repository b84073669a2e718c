"""EMPS, the field's reference chain for one axis: published IDIM-LS digits, through our readers and
estimators.

Janot, Gautier, Brunot, "Data set and reference models of EMPS", 2019: butter(4, 100 Hz) + filtfilt
on the position, central differences, the first 49 samples dropped, decimation by 10 as MATLAB does,
ordinary least squares. The recipe is written out here; ours is another, compared below.
"""

import machines
import numpy as np
import pytest
from scipy.signal import butter, cheby1, filtfilt, sosfiltfilt

from gough.app.identify import identify
from gough.fitting.least_squares import LeastSquares
from gough.fitting.regression import Regression
from gough.logs.recording import Recording

DROP = slice(49, None)

pytestmark = pytest.mark.skipif(not machines.available("emps"), reason="EMPS data are not here")


@pytest.fixture(scope="module")
def recording() -> Recording:
    return machines.emps_log()


def decimate(values: np.ndarray, factor: int) -> np.ndarray:
    """As MATLAB: Chebyshev, order 8, 0.05 dB, 0.8 of the new Nyquist frequency, twice; the last
    sample is kept.
    """
    smooth = sosfiltfilt(cheby1(8, 0.05, 0.8 / factor, output="sos"), values, axis=0, padlen=24)
    return np.asarray(smooth[(len(values) - 1) % factor :: factor])


def published(recording: Recording, asymmetric: bool = False) -> Regression:
    rate = round(recording.rate)
    position = filtfilt(*butter(4, 0.2), recording.position, axis=0, padlen=12)[:, 0]
    velocity = np.gradient(position, 1 / rate)
    qd, qdd = velocity[DROP], np.gradient(velocity, 1 / rate)[DROP]
    columns, names = [qdd, qd, np.sign(qd), np.ones_like(qd)], ("M", "Fv", "Fc", "offset")
    if asymmetric:
        up, down = qd > 0, qd < 0
        columns, names = (
            [qdd, qd * up, 1.0 * up, qd * down, -1.0 * down],
            ("M", "Fv+", "Fc+", "Fv-", "Fc-"),
        )
    small = decimate(np.column_stack([*columns, recording.effort[DROP, 0]]), 10)
    return Regression(
        regressor=small[:, None, :-1],
        effort=small[:, -1:],
        rows=("slider",),
        row_units=("N",),
        parameters=names,
        units=("",) * len(names),
    )


def digits(values) -> list[str]:
    return [f"{v:.4f}" for v in values]


def test_the_reference_axis_gives_every_published_digit(recording: Recording) -> None:
    small = published(recording)
    estimate = LeastSquares(uncertainty="white").fit(small)
    samples, p = len(small), 4
    assert digits(estimate.values) == ["95.1089", "203.5034", "20.3935", "-3.1648"]
    # The reference divides the squared residuals by N - 1, not by N - p.
    assert digits(estimate.std * np.sqrt((samples - p) / (samples - 1))) == [
        "0.1085",
        "1.1460",
        "0.1012",
        "0.0444",
    ]
    assert digits([np.linalg.cond(small.regressor[:, 0, :])]) == ["25.9883"]
    assert digits(100 * estimate.residual_relative) == ["4.0834"]


def test_asymmetric_friction_gives_the_published_digits_too(recording: Recording) -> None:
    values = LeastSquares(uncertainty="white").fit(published(recording, asymmetric=True)).values
    assert digits(values) == ["95.1540", "166.7061", "20.1440", "240.4236", "20.6277"]


def test_defaults_come_close_to_the_published_model(recording: Recording) -> None:
    """The reference takes 100 Hz and decimation by 10 from a known bandwidth of 20 Hz; ours come
    from prediction.
    """
    result = identify(machines.emps(), [recording])
    assert result.estimate["car.m"] == pytest.approx(95.1089, rel=0.003)
    for name, value in (("slider.fv", 203.5034), ("slider.fs", 20.3935), ("slider.off", -3.1648)):
        assert result.estimate[name] == pytest.approx(value, rel=0.02)
