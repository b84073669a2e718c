"""What a box is computed from: digests of the robot and of the logs, gains and constants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gough import __version__
from gough.core.documents import content_digest, plain
from gough.engine import Model
from gough.logs.recording import Recording
from gough.mechanism.types import Mechanism
from gough.processing.matching import drive_gains

# Fields of a mechanism that do not affect its equations.
_TEXT_FIELDS = ("title", "reference", "source")


def source_of(
    model: Model,
    recordings: Sequence[Recording],
    gains: Mapping[str, float] | None,
) -> dict[str, Any]:
    """Return what a box is bound to, as plain numbers and texts.

    Args:
        model: The robot with the constants of joint terms that were
            used.
        recordings: The logs.
        gains: Drive gains that replace those of the robot file, by
            joint.
    """
    mechanism = model.mechanism
    used_gains: dict[str, float] = {}
    if any(log.effort is None for log in recordings):
        used_gains = drive_gains(model, gains)
    constants = {name: constant.value for name, constant in mechanism.constants.items()}
    return {
        "version": __version__,
        "robot": mechanism.name,
        "robot_sha256": robot_digest(mechanism),
        "redundant": model.loops.redundant,
        "logs": [[Path(log.source).name, log.fingerprint] for log in recordings],
        "gains": used_gains,
        "constants": constants,
    }


def robot_digest(mechanism: Mechanism) -> str:
    """Return the SHA-256 of all that a robot file states but texts for people, joint terms too."""
    content = plain(mechanism)
    for name in _TEXT_FIELDS:
        content.pop(name)
    content["terms"] = plain(dict(mechanism.terms))
    return content_digest(content)
