"""Compare model structures on the same data: friction, equal legs, weakly determined parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from gough.core.arrays import FloatArray
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

# times the best held-out error: as good as the best
STRUCTURE_TIE_RATIO = 1.01


@dataclass(frozen=True, kw_only=True)
class FrictionStructure:
    """One friction structure fitted to the data; figures are None where unknown."""

    name: str  # in words
    parameters: int  # number of parameters of the model with it
    # condition number of the correlation matrix (AH09)
    correlation_condition: float | None
    # relative to the effort, root mean square over the rows
    residual: float | None
    held_out: float | None  # the same of the held-out logs
    reason: str = ""  # why there is no estimate

    def row(self, advised: str | None) -> list[str]:
        """Return its row of the table, marked if it is the advised one."""
        condition = "-"
        if self.correlation_condition is not None:
            condition = f"{self.correlation_condition:.4g}"
        remark = "<- advised" if self.name == advised else self.reason
        return [
            self.name,
            str(self.parameters),
            condition,
            _percent(self.residual),
            _percent(self.held_out),
            remark,
        ]


def _percent(error: float | None) -> str:
    return "-" if error is None else f"{100 * error:.3g} %"


@dataclass(frozen=True, kw_only=True)
class ModelChoice:
    """Friction structures, leg symmetry, weak directions and terms compared on one experiment."""

    friction: tuple[FrictionStructure, ...]  # from none to that of all joints
    symmetry: tuple[selection.Symmetry, ...]  # F-tests of equal legs
    # combinations that the data determine least
    weak: tuple[selection.WeakDirection, ...]
    notices: tuple[Notice, ...] = ()  # on the comparison
    # additional joint terms
    terms: TermChoice = field(default_factory=TermChoice)

    @property
    def advised(self) -> str | None:
        """The best conditioned structure (AH09) of those within 1 % of the best held-out error."""
        errors = {}
        conditions = {}
        for structure in self.friction:
            if structure.held_out is None or structure.correlation_condition is None:
                continue
            errors[structure.name] = structure.held_out
            conditions[structure.name] = structure.correlation_condition
        if not errors:
            return None
        limit = STRUCTURE_TIE_RATIO * min(errors.values())
        near = [name for name in errors if errors[name] <= limit]
        return min(near, key=lambda name: conditions[name])

    def to_dict(self) -> dict[str, Any]:
        """Return the documented JSON form."""
        return {**asdict(self), "advised": self.advised}

    def summary(self) -> str:
        """Return the tables as plain text."""
        header = [
            "friction",
            "parameters",
            "cond(correlation)",
            "residual",
            "held-out error",
            "",
        ]
        rows = [structure.row(self.advised) for structure in self.friction]
        lines = ["Friction structures", text_table(header, rows)]
        if self.symmetry:
            lines += [
                "",
                "Are legs alike? F-test of equal parameters",
                self._symmetry_table(),
            ]
        if self.terms.alone:
            lines += ["", self.terms.summary()]
        lines += [
            "",
            "Combinations that the data determine least: fraction of the best determined, "
            "parameters scaled to equal effort",
        ]
        lines += [f"{weak.relative:8.2g}  {weak.direction}" for weak in self.weak]
        lines += notice_lines(self.notices)
        return "\n".join(lines)

    def _symmetry_table(self) -> str:
        """Return the F-tests of equal legs as a table."""
        header = [
            "parameter",
            "F",
            "degrees of freedom",
            "p",
            f"at level {selection.TIE_TEST_LEVEL:g}",
        ]
        rows = []
        for test in self.symmetry:
            row = [
                test.name,
                f"{test.f:.3g}",
                f"{test.constraints:.0f}, {test.degrees_of_freedom:.4g}",
                f"{test.p:.2g}",
                "differ" if test.differ else "may be equal",
            ]
            rows.append(row)
        return text_table(header, rows)


def model_choice(
    model: Model,
    base: BaseParameters,
    problem: Regression,
    estimator: Estimator,
    *,
    held_out: Regression | None = None,
) -> ModelChoice:
    """Compare friction structures, test equal legs and find weakly determined combinations.

    Args:
        model: The robot.
        base: Its base parameters.
        problem: The regression of its logs.
        estimator: Estimator of all structures.
        held_out: Regression of the held-out logs.
    """
    base = base.select(problem.parameters)
    structures = friction_structures(model, base)
    fits = selection.compare_structures(problem, structures, estimator, held_out=held_out)
    groups = leg_groups(base)
    symmetry: tuple[selection.Symmetry, ...] = ()
    notices: tuple[Notice, ...] = ()
    if groups:
        try:
            symmetry = selection.tie_test(estimator.fit(problem), groups)
        except GoughError as error:
            text = f"legs were not compared: {error}"
            notices = (Notice(rule="symmetry", level="info", text=text),)
    if len(groups) == 1:  # the last test, of all groups together, is that of the group
        symmetry = symmetry[:-1]
    return ModelChoice(
        friction=tuple(_friction_structure(fit) for fit in fits.values()),
        symmetry=symmetry,
        weak=selection.weak_directions(problem),
        notices=notices,
    )


def _friction_structure(fit: selection.StructureResult) -> FrictionStructure:
    """Return the figures of the fit of one structure."""
    condition = None
    residual = None
    held_out = None
    if fit.estimate is not None:
        condition = fit.estimate.correlation_condition
        residual = _rms(fit.estimate.residual_relative)
    if fit.held_out is not None:
        held_out = _rms(fit.held_out)
    return FrictionStructure(
        name=fit.name,
        parameters=len(fit.parameters),
        reason=fit.reason,
        correlation_condition=condition,
        residual=residual,
        held_out=held_out,
    )


def _rms(values: FloatArray) -> float:
    return float(np.sqrt(np.mean(np.square(values))))


def friction_structures(model: Model, base: BaseParameters) -> dict[str, selection.Structure]:
    """Return no friction, each kind alone, all kinds of the motors, and of all joints.

    The latter two also with the friction of equal legs tied. Only
    friction that the robot file declares; offsets stay in all of them.
    Equal structures are named once.
    """
    mechanism = model.mechanism
    standard_names = dict(zip(base.names, column_names(base)))
    groups = leg_groups(base)
    kinds = {name: term for name, term in mechanism.terms.items() if term.dissipative}
    rigid = [name for name, standard in standard_names.items() if standard.kind not in kinds]
    friction = [name for name, standard in standard_names.items() if standard.kind in kinds]
    motors = []
    for name in friction:
        owners = {member.owner for member in model.resolve(standard_names[name])}
        if owners <= set(mechanism.actuated):
            motors.append(name)

    every = "both" if len(kinds) <= 2 else "all"
    candidates: dict[str, selection.Structure] = {"none": rigid}
    for kind, term in kinds.items():
        alone = [name for name in motors if standard_names[name].kind == kind]
        candidates[term.label.removesuffix(" friction")] = [*rigid, *alone]
    candidates[every] = [*rigid, *motors]
    candidates[f"{every}, legs alike"] = [*rigid, *_tied(motors, groups)]
    candidates[f"{every}, passive joints too"] = [*rigid, *friction]
    candidates[f"{every}, passive joints too, legs alike"] = [
        *rigid,
        *_tied(friction, groups),
    ]
    structures: dict[str, selection.Structure] = {}
    for label, structure in candidates.items():
        if not any(set(structure) == set(other) for other in structures.values()):
            structures[label] = structure
    return structures


def _tied(names: Sequence[str], groups: Sequence[tuple[str, ...]]) -> list[str | tuple[str, ...]]:
    """Return parameters with those of equal legs as groups, after the others."""
    tied_groups = [group for group in groups if group[0] in names]
    single: list[str | tuple[str, ...]] = []
    for name in names:
        if not any(name in group for group in tied_groups):
            single.append(name)
    return [*single, *tied_groups]


def leg_groups(base: BaseParameters) -> tuple[tuple[str, ...], ...]:
    """Return groups of base parameters that are equal if the legs are.

    Those of a group have the same name and regrouping formula but for
    the leg.
    """
    groups: dict[tuple[Any, ...], list[str]] = {}
    for row, name in zip(base.matrix, base.names):
        if name.leg is None:
            continue
        formula = []
        for k in np.flatnonzero(row):
            member = base.standard[k]
            same_leg = member.leg == name.leg
            formula.append(
                (
                    same_leg,
                    member.local if same_leg else member,
                    f"{row[k]:.6g}",
                )
            )
        key = (name.local, tuple(sorted(formula)))
        groups.setdefault(key, []).append(name)
    return tuple(tuple(group) for group in groups.values() if len(group) > 1)
