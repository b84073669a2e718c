"""The payload of loaded logs: its name, and its parameters where they were measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from gough.core.errors import InvalidInput, nearest
from gough.core.names import INERTIAL, Parameter
from gough.engine import Model
from gough.logs.recording import Recording
from gough.mechanism.types import Payload

# Name of a payload whose mass was measured and which the robot file
# does not declare.
UNDECLARED_PAYLOAD = "load"


def payload_of(
    model: Model, loaded: Sequence[Recording], text: str | None
) -> tuple[str | None, dict[str, float] | None]:
    """Return the name of the payload of loaded logs, and its measured parameters by kind, if any.

    Args:
        model: The robot.
        loaded: Logs with the payload.
        text: A name of the robot file, measured values (`mass=1.983`),
            both (`disc:m=1.983,mx=0`), or None.
    """
    name, measured = _parse_payload(text or "")
    if text is not None and not loaded:
        raise InvalidInput(
            f"'{text}' is the payload of the loaded logs, and there are none; give them with "
            "`loaded`"
        )
    if name:
        return model.mechanism.payload(name).name, measured or None
    named = sorted({log.payload for log in loaded if log.payload is not None})
    if len(named) > 1:
        raise InvalidInput(
            f"the loaded logs carry different payloads: {', '.join(named)}; identify one by one"
        )
    if named:
        return named[0], measured or None
    declared = [payload.name for payload in model.mechanism.payloads]
    if measured and len(declared) == 1:
        return declared[0], measured
    if loaded:
        advice = f"name it with `payload`, one of: {', '.join(declared)}"
        if not declared:
            advice = "the robot file has none: give its mass with `payload='mass=...'`"
        raise InvalidInput(
            f"the loaded logs do not say which payload they carry; {advice}",
            payloads=declared,
        )
    return None, measured or None


def with_measured_payload(model: Model, text: str) -> Model:
    """Return the robot with a payload of its tool if its file has none and one was measured.

    Args:
        model: The robot.
        text: As for `payload_of`, e.g. `mass=1.983`.
    """
    name, measured = _parse_payload(text)
    if not measured or name or model.mechanism.payloads:
        return model
    undeclared = Payload(name=UNDECLARED_PAYLOAD, body=model.mechanism.flange)
    return model.with_mechanism(replace(model.mechanism, payloads=(undeclared,)))


def _parse_payload(text: str) -> tuple[str, dict[str, float]]:
    """Split `name:kind=number,...` into the name and the numbers by kind; each may be missing."""
    name, _, assignments = text.partition(":")
    if "=" in name:
        name = ""
        assignments = text
    measured = {}
    for assignment in filter(None, assignments.split(",")):
        kind, _, number = assignment.partition("=")
        kind = kind.strip()
        if kind == "mass":
            kind = "m"
        try:
            measured[kind] = float(number)
        except ValueError:
            raise InvalidInput(
                f"payload '{text}': '{assignment}' is not name=number, e.g. mass=1.983"
            ) from None
    if not all(np.isfinite(list(measured.values()))):
        raise InvalidInput(f"payload '{text}' has a number that is not finite")
    return name, measured


def known_payload(
    model: Model, name: str, measured: Mapping[str, float] | None = None
) -> dict[str, float]:
    """Return the known parameters of a payload by full name, e.g. `payload.calibration.m`.

    They are the measured ones, or without any those that the robot file
    says are known.
    """
    payload = model.mechanism.payload(name)
    if measured is None:
        values = {kind: float(payload.values.get(kind, 0.0)) for kind in payload.known}
    else:
        values = dict(measured)
    for kind in values:
        if kind not in INERTIAL:
            raise InvalidInput(f"no payload parameter '{kind}'{nearest(kind, INERTIAL)}")
    if not values.get("m", 1.0) > 0:
        raise InvalidInput(
            f"the payload mass is {values['m']} kg; a payload of zero mass sets no scale: weigh it"
        )
    return {Parameter.of_payload(name, kind): known for kind, known in values.items()}
