"""A log as a motion of the whole robot, with the efforts a model predicts for it."""

from __future__ import annotations

from gough.engine import Model, base_parameters
from gough.identification.experiment import prepare
from gough.identification.identify import fit_of
from gough.identification.result import Fit, Identification
from gough.identification.validation import known_effort, unseen_by
from gough.logs.recording import Recording


def playback(model: Model, recording: Recording, result: Identification | None = None) -> Fit:
    """Return what a robot did and what its motors should have done by a result, by its robot file without one."""
    if result is not None:
        seen = unseen_by(result, model, [recording])
        part, known = seen.parts[0], result.known
        return fit_of(seen.processed[0], part, lambda p: result.estimate.predict(p) + known_effort(p, known))
    base = base_parameters(model, payloads=() if recording.payload is None else (recording.payload,))
    values = base.values(model.values(base.standard))
    seen = prepare(model, [recording], base)
    return fit_of(seen.processed[0], seen.parts[0], lambda part: part.regressor @ values)
