"""Values that the user states, tested against the data where they determine them."""

from __future__ import annotations

from collections.abc import Sequence

from gough.core.display import rounded
from gough.core.names import Parameter
from gough.core.notices import Notice
from gough.core.statistics import student_tail
from gough.engine import Model
from gough.fitting.estimate import Estimate
from gough.identification.measured_payload import payload_of
from gough.logs.recording import Recording

# A stated value is contradicted if its deviation has a probability
# below this and exceeds this fraction of the value.
CONTRADICTION_PROBABILITY = 1e-3
MATERIAL_DEVIATION = 0.005


def contradiction(estimate: Estimate, name: str, stated: float) -> Notice | None:
    """Return an error if an estimated parameter contradicts what was stated; else None.

    Args:
        estimate: The estimate, without use of the stated value.
        name: The parameter.
        stated: Its stated value. [unit of the parameter]
    """
    k = estimate.parameters.index(name)
    value = float(estimate.values[k])
    std = float(estimate.std[k])
    deviation = abs(stated - value)
    if not std or deviation < MATERIAL_DEVIATION * abs(stated):
        return None
    t_value = deviation / std
    p_value = 2 * float(student_tail(t_value, estimate.degrees_of_freedom[k]))
    if p_value > CONTRADICTION_PROBABILITY:
        return None
    number, error = rounded(value, std)
    unit = estimate.units[k]
    return Notice(
        rule="stated value",
        level="error",
        where=name,
        text=f"stated as {stated:g} {unit}, but the logs say {number} +- {error} {unit}, "
        f"{t_value:.0f} standard errors away",
        advice="measure it again, or leave it out; the model of the robot or the drive gains may "
        "also be wrong",
        numbers={"stated": stated, "value": value, "std": std},
    )


def stated_payload_notices(
    model: Model, loaded: Sequence[Recording], text: str | None, estimate: Estimate
) -> list[Notice]:
    """Return an error for each stated payload parameter that the logs contradict.

    Args:
        model: The robot.
        loaded: Logs with the payload.
        text: What was stated, e.g. `mass=1.983`.
        estimate: With the payload among its parameters; drive gains
            need what was stated, and then the payload is not.
    """
    payload, measured = payload_of(model, loaded, text)
    notices = []
    for kind, stated in (measured or {}).items():
        name = Parameter.of_payload(payload or "", kind)
        if name in estimate.parameters:
            notices.append(contradiction(estimate, name, stated))
    return [notice for notice in notices if notice is not None]
