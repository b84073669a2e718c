"""The formats a result is written in, JSON and TOML among them, and what robot formats share:
bodies that can exist, joint terms they have words for. docs/extending.md adds a format.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from gough.core.arrays import FloatArray, check_finite, check_shape
from gough.core.documents import toml_text
from gough.core.errors import InvalidInput, OutputError, nearest
from gough.core.files import require_free, write_together
from gough.core.names import INERTIAL, payload_of
from gough.engine import Model
from gough.fitting.pseudo_inertia import pseudo_inertia
from gough.identification import Identification
from gough.mechanism.terms import JointState, JointTerm
from gough.mechanism.types import Joint

CONSISTENT = 1e-9  # round-off allowed in the eigenvalues of a scaled pseudo-inertia
DRAWN = 2000  # states of a joint that terms are compared in


@dataclass(frozen=True, kw_only=True)
class Export:
    """A format.

    Args:
        name: What it is asked for by.
        label: What is written, in words.
        write: Robot, result, name of the files without ending -> text of each file by its ending.
            Raises `InvalidInput` for what the format cannot express.
        usual: Usual name of the files; the robot's if empty.
        identifier: The files' name must be letters, digits and underscores.
        words: Tells which joint terms the format has words for; None where it has them for all.
    """

    name: str
    label: str
    write: Callable[[Model, Identification, str], Mapping[str, str]]
    usual: str = ""
    identifier: bool = False
    words: Callable[[JointTerm], bool] | None = None


EXPORTS: dict[str, Export] = {}


def register_export(entry: Export) -> Export:
    """Make a format known; return it."""
    if entry.name in EXPORTS:
        raise InvalidInput(
            f"there is already an export format '{entry.name}'; choose another name",
            name=entry.name,
        )
    EXPORTS[entry.name] = entry
    return entry


def export(
    model: Model,
    identification: Identification,
    folder: str | Path,
    to: str,
    *,
    name: str | None = None,
    force: bool = False,
    approximate: bool = False,
) -> list[Path]:
    """Write a result in some format and return the files.

    Args:
        folder: Where to; made if it does not exist.
        to: The format, see `EXPORTS`.
        name: Of the files without ending; the format's usual one by default.
        force: Overwrite existing files.
        approximate: Write joint terms that the format has no word for as those it has; the files
            say what is lost.
    """
    if to not in EXPORTS:
        raise InvalidInput(f"no export format '{to}'{nearest(to, EXPORTS)}", format=to)
    entry, target = EXPORTS[to], Path(folder)
    if name is not None and (Path(name).name != name or name in ("", "..")):
        raise InvalidInput(
            f"'{name}' is no name for a file; give the folder and the name apart", name=name
        )
    stem = (
        name
        if name is not None and not entry.identifier
        else identifier(name or entry.usual or model.mechanism.name)
    )
    model = identification.fitted(model)
    lost: list[str] = []
    if approximate and entry.words is not None:
        terms, lost = approximate_terms(model, identification.joint_terms, entry.words)
        identification = replace(identification, joint_terms=terms)
    texts = dict(entry.write(model, identification, stem))
    if lost:
        texts[next(iter(texts))] += "".join(f"<!-- {comment(line)} -->\n" for line in lost)
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(
            f"cannot make the folder '{target}': {error.strerror}", path=str(target)
        ) from error
    files = {target / f"{stem}.{ending}": text for ending, text in texts.items()}
    for file in files:
        require_free(file, force)
    write_together(target, {file.name: text.encode("utf-8") for file, text in files.items()})
    return list(files)


def identifier(name: str) -> str:
    """Return a name of ASCII letters, digits and underscores that does not start with a digit."""
    text = re.sub(r"[^A-Za-z0-9_]", "_", name) or "_"
    return f"_{text}" if text[0].isdigit() else text


def comment(text: str) -> str:
    """Keep text from ending an XML comment or spanning lines."""
    return re.sub(r"-(?=-|$)|[^\x20-\x7e]", "?", text)


def to_table(identification: Identification) -> dict[str, Any]:
    """Return what JSON and TOML hold, SI units.

    `parameters` are the estimate's, each with `name, value, std, unit`; `drive_gains` and `payload`
    those found, by name, with `value` and, where it was estimated, `std`; `bodies` (ten numbers in
    the order `m mx my mz Ixx Ixy Iyy Ixz Iyz Izz` about the body's frame) and `joint_terms` the
    physically consistent ones, if that estimate was made.
    """
    result = identification.to_dict()
    return {
        key: result[key]
        for key in (
            "robot",
            "estimator",
            "level",
            "headline",
            "notices",
            "parameters",
            "drive_gains",
            "payload",
        )
    } | {
        "bodies": {
            name: [float(v) for v in values] for name, values in identification.bodies.items()
        },
        "joint_terms": {name: float(v) for name, v in identification.joint_terms.items()},
    }


register_export(
    Export(
        name="json",
        label="identified parameters as JSON",
        usual="parameters",
        write=lambda model, result, name: {
            "json": json.dumps(to_table(result), indent=1, allow_nan=False, ensure_ascii=False)
            + "\n"
        },
    )
)
register_export(
    Export(
        name="toml",
        label="identified parameters as TOML",
        usual="parameters",
        write=lambda model, result, name: {"toml": toml_text(to_table(result))},
    )
)


def physical_result(
    result: Identification, format: str
) -> tuple[Mapping[str, ArrayLike], Mapping[str, float]]:
    """Return bodies and joint terms of the physically consistent estimate."""
    if not result.bodies:
        failed = [n for n in result.notices if n.rule == "estimator" and n.where == "feasible"]
        raise InvalidInput(
            f"{format} needs bodies that can exist, and this result ({result.estimator}) has base "
            f"parameters only; "
            f"{failed[0] if failed else 'identify with the estimator feasible or all'}",
            estimator=result.estimator,
        )
    return result.bodies, result.joint_terms


def check_bodies(model: Model, bodies: Mapping[str, ArrayLike]) -> dict[str, FloatArray]:
    """Return the ten inertial parameters of every body of the robot that has any, after checking
    them.

    Bodies that have no parameters in the robot file are massless and may be missing; a payload
    (`payload.<name>`) is no part of the robot and is left out.
    """
    known, found = [body.name for body in model.mechanism.bodies], {}
    for body in model.mechanism.bodies:
        if body.parameters and body.name not in bodies:
            raise InvalidInput(
                f"the inertial parameters of body '{body.name}' are missing", body=body.name
            )
    for name, values in bodies.items():
        if payload_of(name) is not None:
            continue
        if name not in known:
            raise InvalidInput(
                f"'{model.mechanism.name}' has no body '{name}'{nearest(name, known)}", body=name
            )
        parameters = np.asarray(values, dtype=float)
        check_shape(parameters, (len(INERTIAL),), f"inertial parameters of '{name}'")
        check_finite(parameters, f"inertial parameters of '{name}'")
        if not parameters.any():
            continue
        if not _possible(parameters):
            raise InvalidInput(
                f"no body can have the inertial parameters of '{name}' "
                f"({', '.join(f'{p} {v:.4g}' for p, v in zip(INERTIAL, parameters))}): its "
                "pseudo-inertia is not positive; export a physically consistent estimate",
                body=name,
            )
        found[name] = parameters
    return found


def _possible(parameters: FloatArray) -> bool:
    """Tell whether some distribution of mass has these parameters, up to round-off."""
    J = pseudo_inertia(parameters)
    spread = np.trace(J[:3, :3])
    if not parameters[0] > 0 or not spread >= 0:
        return False
    length = np.sqrt(spread / parameters[0]) or 1.0
    scale = np.sqrt(parameters[0]) * np.array([length, length, length, 1.0])
    return bool(np.linalg.eigvalsh(J / np.outer(scale, scale))[0] > -CONSISTENT)


def check_terms(
    model: Model,
    terms: Mapping[str, float] | None,
    format: str = "",
    known: Callable[[JointTerm], bool] = lambda term: True,
) -> dict[str, float]:
    """Return the coefficient of every joint term: given ones, else the robot file's.

    Raises:
        InvalidInput: A name that is no joint term of the robot, or a term that the format has no
            word for.
    """
    mechanism = model.mechanism
    found: dict[str, float] = {
        n: mechanism.standard[n] for n in mechanism.standard.names if not n.inertial
    }
    for name, value in (terms or {}).items():
        if name not in found:
            raise InvalidInput(
                f"'{mechanism.name}' has no joint term '{name}'{nearest(name, found)}", name=name
            )
        found[name] = float(value)
    for joint in mechanism.joints:
        for term in (mechanism.terms[name] for name in joint.terms):
            if found[f"{joint.name}.{term.name}"] and not known(term):
                raise InvalidInput(
                    f"{format} has no word for the term '{term.name}' ({term.label}) of joint "
                    f"'{joint.name}'; export it as C code, approximately, or identify without it",
                    joint=joint.name,
                    term=term.name,
                )
    return found


def worded(
    model: Model,
    joint: Joint,
    coefficients: Mapping[str, float],
    form: Literal["mjcf", "urdf", "sidecar"],
) -> dict[str, float]:
    """Return the coefficients of a joint's terms by what a format calls them."""
    found: dict[str, float] = {}
    for name in joint.terms:
        key = getattr(model.mechanism.terms[name], form)
        if key is not None:
            found[key] = found.get(key, 0.0) + coefficients[f"{joint.name}.{name}"]
    return found


def approximate_terms(
    model: Model, terms: Mapping[str, float], known: Callable[[JointTerm], bool]
) -> tuple[dict[str, float], list[str]]:
    """Return terms with words only, nearest to all of them over the joints' range of motion, and
    what is lost.

    The efforts of what has no word are fitted by the joint's terms that have one, least squares
    over positions and speeds within the limits (1 m or rad, and per s, where there are none), up to
    half the effort; lags have settled.
    """
    found, lost, rng = dict(terms), [], np.random.default_rng(0)
    still = JointState(q=0.0, qd=0.0, qdd=0.0, sign=0.0, math=np)
    for joint in model.mechanism.joints:
        own = {f"{joint.name}.{name}": model.mechanism.terms[name] for name in joint.terms}
        missing = {name: t for name, t in own.items() if terms.get(name) and not known(t)}
        words = {
            name: t for name, t in own.items() if name in terms and known(t) and not t.uses("qdd")
        }
        if not missing:
            continue
        low, high = joint.limits.position or (-1.0, 1.0)
        top = joint.limits.velocity or 1.0
        q, qd = rng.uniform(low, high, DRAWN), rng.uniform(-top, top, DRAWN)
        passed = rng.uniform(-0.5, 0.5, DRAWN) * (joint.limits.effort or 1.0)
        state = replace(
            still, q=q, qd=qd, sign=np.sign(qd), effort=passed, other=lambda name: still
        )
        effort = sum(terms[name] * t.value(state) for name, t in missing.items()) + np.zeros_like(q)
        X = np.array([t.value(state) + np.zeros_like(q) for t in words.values()]).T.reshape(
            len(q), -1
        )
        change = np.linalg.lstsq(X, effort, rcond=None)[0]
        found |= {name: terms[name] + float(c) for name, c in zip(words, change)} | dict.fromkeys(
            missing, 0.0
        )
        rms = [np.sqrt(np.mean(x**2)) for x in (effort - X @ change, effort)]
        become = ", ".join(t.name for t in words.values()) or "nothing"
        lost.append(
            f"{joint.name}: {', '.join(t.name for t in missing.values())} of {rms[1]:.3g} "
            f"{joint.effort_unit} "
            f"rms became {become}; {rms[0]:.3g} {joint.effort_unit} rms are lost"
        )
    return found, lost


def standard_values(
    model: Model, bodies: Mapping[str, FloatArray], terms: Mapping[str, float]
) -> FloatArray:
    """Return bodies and joint terms as standard parameters, (p,)."""
    return np.array(
        [
            bodies[name.owner][INERTIAL.index(name.kind)]
            if name.inertial and name.owner in bodies
            else terms.get(name, 0.0)
            for name in model.mechanism.standard.names
        ]
    )
