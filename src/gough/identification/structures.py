"""What the data say about the choice of the model: friction, equal legs, combinations hardly
seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from gough.core.display import text_table
from gough.core.errors import GoughError
from gough.core.notices import Notice, notice_lines
from gough.core.parameters import BaseParameters
from gough.engine import Model
from gough.engine.columns import column_names
from gough.fitting import selection
from gough.fitting.problem import Estimator
from gough.fitting.regression import Regression
from gough.identification.term_choice import TermChoice

NEAR = 1.01  # of the best held-out error: as good


@dataclass(frozen=True, kw_only=True)
class FrictionStructure:
    """One friction structure on the same data, in words and by its number of parameters; None where
    unknown.
    """

    name: str
    parameters: int
    correlation_condition: float | None  # AH09's measure
    residual: float | None  # relative to the effort, root mean square over the rows
    held_out: float | None
    reason: str = ""  # why there is no estimate

    def row(self, advised: str | None) -> list[str]:
        """Return what a table says of it."""
        condition = (
            "-" if self.correlation_condition is None else f"{self.correlation_condition:.4g}"
        )
        errors = [
            "-" if error is None else f"{100 * error:.3g} %"
            for error in (self.residual, self.held_out)
        ]
        return [
            self.name,
            str(self.parameters),
            condition,
            *errors,
            "<- advised" if self.name == advised else self.reason,
        ]


@dataclass(frozen=True, kw_only=True)
class ModelChoice:
    """Friction structures, leg symmetry, weak directions and terms that one experiment asks for."""

    friction: tuple[FrictionStructure, ...]
    symmetry: tuple[selection.Symmetry, ...]
    weak: tuple[selection.WeakDirection, ...]
    notices: tuple[Notice, ...] = ()
    terms: TermChoice = field(default_factory=TermChoice)

    @property
    def advised(self) -> str | None:
        """The best supported structure (AH09) among those that predict held-out data within 1 % of
        the best.
        """
        known = [
            s
            for s in self.friction
            if s.held_out is not None and s.correlation_condition is not None
        ]
        if not known:
            return None
        best = min(s.held_out or 0.0 for s in known)
        near = [s for s in known if (s.held_out or 0.0) <= NEAR * best]
        return min(near, key=lambda s: s.correlation_condition or 0.0).name

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "advised": self.advised}

    def summary(self) -> str:
        """Return the tables as plain text."""
        header = ["friction", "parameters", "cond(correlation)", "residual", "held-out error", ""]
        parts = [
            "Friction structures",
            text_table(header, [s.row(self.advised) for s in self.friction]),
        ]
        if self.symmetry:
            rows = [
                [
                    s.name,
                    f"{s.f:.3g}",
                    f"{s.constraints:.0f}, {s.degrees_of_freedom:.4g}",
                    f"{s.p:.2g}",
                    "differ" if s.differ else "may be equal",
                ]
                for s in self.symmetry
            ]
            parts += [
                "",
                "Are legs alike? F-test of equal parameters",
                text_table(
                    ["parameter", "F", "degrees of freedom", "p", f"at level {selection.LEVEL:g}"],
                    rows,
                ),
            ]
        if self.terms.alone:
            parts += ["", self.terms.summary()]
        parts += [
            "",
            "Combinations the data see least: share of the best seen, parameters scaled to equal "
            "effort",
            *(f"{w.relative:8.2g}  {w.direction}" for w in self.weak),
            *notice_lines(self.notices),
        ]
        return "\n".join(parts)


def model_choice(
    model: Model,
    base: BaseParameters,
    problem: Regression,
    estimator: Estimator,
    *,
    held_out: Regression | None = None,
) -> ModelChoice:
    """Compare friction structures, test whether legs are alike and name what the data hardly
    see.
    """
    base = base.select(problem.parameters)
    friction, groups = [], leg_groups(base)
    structures = friction_structures(model, base)
    for found in selection.compare_structures(
        problem, structures, estimator, held_out=held_out
    ).values():
        e = found.estimate
        friction.append(
            FrictionStructure(
                name=found.name,
                parameters=len(found.parameters),
                reason=found.reason,
                correlation_condition=None if e is None else e.correlation_condition,
                residual=None if e is None else _rms(e.residual_relative),
                held_out=None if found.held_out is None else _rms(found.held_out),
            )
        )
    symmetry: tuple[selection.Symmetry, ...] = ()
    notices: tuple[Notice, ...] = ()
    if groups:
        try:
            symmetry = selection.tie_test(estimator.fit(problem), groups)[
                : -1 if len(groups) == 1 else None
            ]
        except GoughError as error:
            text = f"legs were not compared: {error}"
            notices = (Notice(rule="symmetry", level="info", text=text),)
    weak = selection.weak_directions(problem)
    return ModelChoice(friction=tuple(friction), symmetry=symmetry, weak=weak, notices=notices)


def _rms(values: Any) -> float:
    return float(np.sqrt(np.mean(np.square(values))))


def friction_structures(model: Model, base: BaseParameters) -> dict[str, selection.Structure]:
    """Return no friction, each kind alone (viscous, Coulomb), all of the motors, and of all joints.

    All of them also with equal legs' friction tied. Only friction that the robot file declares.
    Offsets stay in all of them. Structures that come to the same are named once.
    """
    heads, groups = dict(zip(base.names, column_names(base))), leg_groups(base)
    kinds = {name: term for name, term in model.mechanism.terms.items() if term.dissipative}
    rest = [n for n, head in heads.items() if head.kind not in kinds]
    every = [n for n in heads if n not in rest]
    motors = [
        n
        for n in every
        if all(m.owner in model.mechanism.actuated for m in model.resolve(heads[n]))
    ]

    def tied(names: Sequence[str]) -> list[str | tuple[str, ...]]:
        own = [group for group in groups if group[0] in names]
        return [*(n for n in names if not any(n in group for group in own)), *own]

    all_ = "both" if len(kinds) <= 2 else "all"
    candidates: dict[str, selection.Structure] = {"none": rest}
    candidates |= {
        term.label.removesuffix(" friction"): [*rest, *(n for n in motors if heads[n].kind == name)]
        for name, term in kinds.items()
    }
    candidates |= {
        all_: [*rest, *motors],
        f"{all_}, legs alike": [*rest, *tied(motors)],
        f"{all_}, passive joints too": [*rest, *every],
        f"{all_}, passive joints too, legs alike": [*rest, *tied(every)],
    }
    found: dict[str, selection.Structure] = {}
    for name, structure in candidates.items():
        if not any(set(structure) == set(other) for other in found.values()):
            found[name] = structure
    return found


def leg_groups(base: BaseParameters) -> tuple[tuple[str, ...], ...]:
    """Return base parameters that would be equal if legs were: the same name and formula but for
    the leg.
    """
    found: dict[tuple[Any, ...], list[str]] = {}
    for row, name in zip(base.matrix, base.names):
        if name.leg is None:
            continue
        members = [(base.standard[i], f"{row[i]:.6g}") for i in np.flatnonzero(row)]
        formula = tuple(
            sorted(
                (m.leg == name.leg, m.local if m.leg == name.leg else m, share)
                for m, share in members
            )
        )
        found.setdefault((name.local, formula), []).append(name)
    return tuple(tuple(group) for group in found.values() if len(group) > 1)
