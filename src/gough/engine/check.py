"""Facts that follow from a robot file alone: mobility, closure, singularity margins, parameters."""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import shorten
from typing import Any

import numpy as np

from gough.core.notices import Notice, ResultLevel, level_of, notice_lines
from gough.core.options import Settings, merge_settings, option, with_settings
from gough.core.parameters import MAX_FORMULA_CHARS, BaseParameters
from gough.core.progress import report
from gough.core.record import Columns, Record
from gough.engine.base import RANK_GAP_RATIO, TIE_LEGS, base_parameters
from gough.engine.model import Model, Robot, as_model


@dataclass(frozen=True, kw_only=True)
class CheckSettings(Settings):
    """Settings of `check`."""

    tie_legs: bool = option(False, TIE_LEGS)


@dataclass(frozen=True, kw_only=True, eq=False)
class Check(Record):
    """Facts about a robot, computed from its file alone."""

    # the robot in its reference configuration, where all below is
    # evaluated
    model: Model
    closure_residual: float  # largest closure error [m or rad]
    # Distance to a Type-1 singularity, 0 singular, 1 best; None without
    # platform.
    type1_margin: float | None
    type2_margin: float  # distance to a Type-2 singularity, 0 singular, 1 best
    base: BaseParameters  # the base parameters
    # whether parameters are tied across legs as the robot file declares
    tied: bool
    # what was ignored or assumed of the file of another program
    import_notes: tuple[str, ...] = ()

    @property
    def notices(self) -> tuple[Notice, ...]:
        """Warn if the number of base parameters is not clear, with both that are possible.

        Also say what was ignored or assumed of the file of another
        program.
        """
        imported = [Notice(rule="import", level="info", text=note) for note in self.import_notes]
        return (*self._parameter_notices(), *imported)

    def _parameter_notices(self) -> tuple[Notice, ...]:
        if self.base.finer_count is not None:
            return (self._rounded_file_notice(),)
        if self.base.gap >= RANK_GAP_RATIO:
            return ()
        notice = Notice(
            rule="base parameters",
            level="warning",
            text=f"their number is not clear: the last kept singular value is only "
            f"{self.base.gap:.3g} times the first dropped one, expected {RANK_GAP_RATIO:g}; "
            f"{len(self.base)} are kept, the widest gap is after the first {self.base.clear_count}",
            advice="give lengths and angles in the robot file with more digits",
            numbers={"gap": self.base.gap, "clear_count": self.base.clear_count},
        )
        return (notice,)

    def _rounded_file_notice(self) -> Notice:
        finer = self.base.finer_count or 0
        return Notice(
            rule="base parameters",
            level="warning",
            text=f"{len(self.base)} are clearly separated (gap {self.base.gap:.3g}); {finer} if "
            "the last digits of the robot file are taken as exact",
            advice="give lengths and angles in the robot file with more digits if these matter",
            numbers={"gap": self.base.gap, "finer_count": finer},
        )

    @property
    def level(self) -> ResultLevel:
        """The highest level of the notices; `ok` if there is only info."""
        return level_of(self.notices)

    @property
    def headline(self) -> str:
        """Robot, level and number of parameters in one sentence."""
        return (
            f"{self.model.mechanism.name}: {self.level.upper()} - "
            f"{self.model.loops.degrees_of_freedom} degrees of freedom, "
            f"{len(self.base)} base parameters"
        )

    def table(self) -> Columns:
        """Return the base parameters as a table."""
        return self.base.table()

    def to_dict(self) -> dict[str, Any]:
        """Return the facts as a dictionary for JSON."""
        mechanism = self.model.mechanism
        loops = self.model.loops
        gap = self.base.gap
        return {
            "robot": mechanism.name,
            "level": self.level,
            "headline": self.headline,
            "notices": [notice.to_dict() for notice in self.notices],
            "title": mechanism.title,
            "degrees_of_freedom": loops.degrees_of_freedom,
            "actuated": list(mechanism.actuated),
            "coordinates": list(mechanism.coordinates),
            "task": list(mechanism.task),
            "home": dict(zip(mechanism.coordinates, loops.home.tolist())),
            "closure_residual": self.closure_residual,
            "assembly": loops.assembly,
            "held": list(loops.locked),
            "singularity_margin": {
                "type1": self.type1_margin,
                "type2": self.type2_margin,
            },
            "standard_parameters": len(self.base.standard),
            "tied": self.tied,
            "base_parameters": {
                "count": len(self.base),
                "names": list(self.base.names),
                "regrouping": self.base.regrouping(),
                "singular_value_gap": gap if np.isfinite(gap) else None,
                "finer_count": self.base.finer_count,
            },
        }

    def summary(self) -> str:
        """Return the facts as text."""
        lines = [
            *self._mechanism_lines(),
            *self._configuration_lines(),
            *self._parameter_lines(),
            *notice_lines(self.notices),
        ]
        return "\n".join(lines)

    def _mechanism_lines(self) -> list[str]:
        mechanism = self.model.mechanism
        title = f": {mechanism.title}" if mechanism.title else ""
        motors = f"{len(mechanism.actuated)}: {', '.join(mechanism.actuated)}"
        coordinates = str(len(mechanism.coordinates))
        if mechanism.task:
            coordinates += f", of which task: {', '.join(mechanism.task)}"
        return [
            f"{mechanism.name}{title}",
            f"  degrees of freedom    {self.model.loops.degrees_of_freedom}",
            f"  motors                {motors}",
            f"  coordinates           {coordinates}",
        ]

    def _configuration_lines(self) -> list[str]:
        mechanism = self.model.mechanism
        loops = self.model.loops
        position = dict(zip(mechanism.coordinates, loops.home))
        shown = dict.fromkeys((*mechanism.actuated, *mechanism.task))
        reference = ", ".join(f"{name} = {position[name]:.4g}" for name in shown)
        type1 = "no platform"
        if self.type1_margin is not None:
            type1 = f"{self.type1_margin:.3f}"
        margins = f"type 1 {type1}, type 2 {self.type2_margin:.3f} (0 singular, 1 best)"
        lines = [
            f"  reference [m or rad]  {reference}",
            f"  closure residual      {self.closure_residual:.1e} m or rad there",
            f"  assembled             {loops.assembly}",
        ]
        if loops.locked:
            locked = ", ".join(loops.locked)
            lines.append(
                f"  locked                {locked} (spin of a body about its own axis has no "
                "effect on the dynamics)"
            )
        lines.append(f"  singularity margins   {margins}")
        return lines

    def _parameter_lines(self) -> list[str]:
        tied = " (legs tied)" if self.tied else ""
        lines = [
            f"  standard parameters   {len(self.base.standard)}{tied}",
            f"  base parameters       {len(self.base)} (singular value gap {self.base.gap:.0e})",
        ]
        for name, formula in self.base.regrouping().items():
            text = name if name == formula else f"{name} = {formula}"
            lines.append(f"    {shorten(text, MAX_FORMULA_CHARS)}")
        return lines


@with_settings(CheckSettings)
def check(model: Robot, settings: CheckSettings | None = None, **options: Any) -> Check:
    """Assemble a robot in its reference configuration and count what can be identified."""
    tie_legs = merge_settings(CheckSettings, settings, options).tie_legs
    model = as_model(model)
    report(0.06)
    reference = model.home[None]
    margins = model.kinematics.margins(reference)
    closure_residual = float(model.kinematics.residual(reference)[0])
    report(0.25)  # kernels are compiled the first time, most of the time that of the regressor
    type1 = float(margins.type1[0])
    return Check(
        model=model,
        closure_residual=closure_residual,
        type1_margin=None if np.isnan(type1) else type1,
        type2_margin=float(margins.type2[0]),
        base=base_parameters(model, tie_legs=tie_legs),
        tied=tie_legs,
    )
