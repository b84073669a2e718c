"""A log as a motion of the whole robot, with the efforts a model predicts for it."""

from __future__ import annotations

from gough.engine import Model, base_parameters
from gough.identification.experiment import prepare
from gough.identification.identify import fits_of
from gough.identification.result import Fit, Identification
from gough.identification.validation import unseen_by
from gough.logs.recording import Recording


def playback(model: Model, recording: Recording, result: Identification | None = None) -> Fit:
    """Return what a robot did and what its motors should have done by a result, by its robot file without one."""
    if result is not None:
        return fits_of(unseen_by(result, model, [recording]), result.estimate.predict)[0]
    base = base_parameters(model, payloads=() if recording.payload is None else (recording.payload,))
    values = base.values(model.values(base.standard))
    return fits_of(prepare(model, [recording], base), lambda part: part.regressor @ values)[0]
