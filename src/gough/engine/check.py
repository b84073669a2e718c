"""What a robot file amounts to: mobility, closure, singularity margins, parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gough.core.options import Settings, merge_settings, option, with_settings
from gough.core.parameters import BaseParameters
from gough.core.record import Columns, Record
from gough.engine.base import TIE_LEGS, base_parameters
from gough.engine.model import Model, Robot, as_model


@dataclass(frozen=True, kw_only=True)
class CheckSettings(Settings):
    """What to look for in a robot file."""

    tie_legs: bool = option(False, TIE_LEGS)


@dataclass(frozen=True, kw_only=True, eq=False)
class Check(Record):
    """Facts about a robot, computed from its file alone.

    Args:
        model: The robot, assembled at home.
        closure_residual: Largest closure error there. [m or rad]
        type1_margin, type2_margin: Distance to singularities of both types there (0 singular, 1
            best); the first is None without platform.
        base: The base parameters.
        tied: Legs were tied as the file says.
    """

    model: Model
    closure_residual: float
    type1_margin: float | None
    type2_margin: float
    base: BaseParameters
    tied: bool

    def table(self) -> Columns:
        return self.base.table()

    def to_dict(self) -> dict[str, Any]:
        mechanism, loops = self.model.mechanism, self.model.loops
        return {
            "robot": mechanism.name,
            "title": mechanism.title,
            "degrees_of_freedom": loops.degrees_of_freedom,
            "actuated": list(mechanism.actuated),
            "coordinates": list(mechanism.coordinates),
            "task": list(mechanism.task),
            "home": dict(zip(mechanism.coordinates, loops.home.tolist())),
            "closure_residual": self.closure_residual,
            "assembly": loops.assembly,
            "held": list(loops.locked),
            "singularity_margin": {"type1": self.type1_margin, "type2": self.type2_margin},
            "standard_parameters": len(self.base.standard),
            "tied": self.tied,
            "base_parameters": {
                "count": len(self.base),
                "names": list(self.base.names),
                "regrouping": self.base.regrouping(),
                "singular_value_gap": self.base.gap if np.isfinite(self.base.gap) else None,
            },
        }

    def summary(self) -> str:
        mechanism, loops = self.model.mechanism, self.model.loops
        type1 = "no platform" if self.type1_margin is None else f"{self.type1_margin:.3f}"
        task = f", of which task: {', '.join(mechanism.task)}" if mechanism.task else ""
        at = dict(zip(mechanism.coordinates, loops.home))
        home = ", ".join(
            f"{n} = {at[n]:.4g}" for n in dict.fromkeys((*mechanism.actuated, *mechanism.task))
        )
        held = f"  held, as all they do is turn bodies about themselves: {', '.join(loops.locked)}"
        return "\n".join(
            [
                f"{mechanism.name}: {mechanism.title}" if mechanism.title else mechanism.name,
                f"  degrees of freedom    {loops.degrees_of_freedom}",
                f"  motors                {len(mechanism.actuated)}: "
                f"{', '.join(mechanism.actuated)}",
                f"  coordinates           {len(mechanism.coordinates)}{task}",
                f"  at home [m or rad]    {home}",
                f"  closure residual      {self.closure_residual:.1e} m or rad at home",
                f"  assembled             {loops.assembly}",
                *([held] if loops.locked else []),
                f"  singularity margins   type 1 {type1}, type 2 {self.type2_margin:.3f} (0 "
                f"singular, 1 best)",
                f"  standard parameters   {len(self.base.standard)}"
                + (" (legs tied)" if self.tied else ""),
                f"  base parameters       {len(self.base)} (singular value gap "
                f"{self.base.gap:.0e})",
                *(
                    f"    {name} = {formula}" if name != formula else f"    {name}"
                    for name, formula in self.base.regrouping().items()
                ),
            ]
        )


@with_settings(CheckSettings)
def check(model: Robot, settings: CheckSettings | None = None, **options: Any) -> Check:
    """Assemble a robot at home and count what can be identified."""
    tie_legs, model = merge_settings(CheckSettings, settings, options).tie_legs, as_model(model)
    margins = model.kinematics.margins(model.home[None])
    type1 = float(margins.type1[0])
    return Check(
        model=model,
        closure_residual=float(model.kinematics.residual(model.home[None])[0]),
        type1_margin=None if np.isnan(type1) else type1,
        type2_margin=float(margins.type2[0]),
        base=base_parameters(model, tie_legs=tie_legs),
        tied=tie_legs,
    )
