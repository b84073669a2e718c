"""What a robot file amounts to: mobility, closure, singularity margins, parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gough.core.options import Settings, option, settle, takes
from gough.core.parameters import BaseParameters
from gough.core.showing import Columns, Shown
from gough.engine.base import TIE_LEGS, base_parameters
from gough.engine.model import Robot, as_model


@dataclass(frozen=True, kw_only=True)
class CheckSettings(Settings):
    """What to look for in a robot file."""

    tie_legs: bool = option(False, TIE_LEGS)


@dataclass(frozen=True, kw_only=True, eq=False)
class Check(Shown):
    """Facts about a robot, computed from its file alone.

    Args:
        robot: Name.
        title: One line about it.
        degrees_of_freedom: Mobility.
        actuated: Names of the motors.
        coordinates: Names of all coordinates.
        task: Names of the task coordinates.
        home: All coordinates by name at the start pose, loops closed. [m or rad]
        closure_residual: Largest closure error there. [m or rad]
        assembly: How that pose was found.
        held: Joints without a motor that are held: all they do is turn bodies about their own centres of mass.
        type1_margin: Distance to the nearest Type-1 singularity at home (0 singular, 1 best), or None without platform.
        type2_margin: The same for Type 2.
        standard_parameters: How many the file declares (tied ones counted once if tied).
        base: The base parameters.
        tied: Legs were tied as the file says.
    """

    robot: str
    title: str
    degrees_of_freedom: int
    actuated: tuple[str, ...]
    coordinates: tuple[str, ...]
    task: tuple[str, ...]
    home: Mapping[str, float]
    closure_residual: float
    type1_margin: float | None
    type2_margin: float
    standard_parameters: int
    base: BaseParameters
    tied: bool
    assembly: str = ""
    held: tuple[str, ...] = ()

    def table(self) -> Columns:
        return self.base.table()

    def to_dict(self) -> dict[str, Any]:
        return {
            "robot": self.robot, "title": self.title, "degrees_of_freedom": self.degrees_of_freedom,
            "actuated": list(self.actuated), "coordinates": list(self.coordinates), "task": list(self.task),
            "home": dict(self.home), "closure_residual": self.closure_residual, "assembly": self.assembly,
            "held": list(self.held),
            "singularity_margin": {"type1": self.type1_margin, "type2": self.type2_margin},
            "standard_parameters": self.standard_parameters, "tied": self.tied,
            "base_parameters": {
                "count": len(self.base), "names": list(self.base.names), "regrouping": self.base.regrouping(),
                "singular_value_gap": self.base.gap if np.isfinite(self.base.gap) else None},
        }

    def summary(self) -> str:
        type1 = "no platform" if self.type1_margin is None else f"{self.type1_margin:.3f}"
        task = f", of which task: {', '.join(self.task)}" if self.task else ""
        home = ", ".join(f"{n} = {self.home[n]:.4g}" for n in dict.fromkeys((*self.actuated, *self.task)))
        return "\n".join([
            f"{self.robot}: {self.title}" if self.title else self.robot,
            f"  degrees of freedom    {self.degrees_of_freedom}",
            f"  motors                {len(self.actuated)}: {', '.join(self.actuated)}",
            f"  coordinates           {len(self.coordinates)}{task}",
            f"  at home [m or rad]    {home}",
            f"  closure residual      {self.closure_residual:.1e} m or rad at home",
            f"  assembled             {self.assembly}",
            *([f"  held, as all they do is turn bodies about themselves: {', '.join(self.held)}"] if self.held else []),
            f"  singularity margins   type 1 {type1}, type 2 {self.type2_margin:.3f} (0 singular, 1 best)",
            f"  standard parameters   {self.standard_parameters}" + (" (legs tied)" if self.tied else ""),
            f"  base parameters       {len(self.base)} (singular value gap {self.base.gap:.0e})",
            *(f"    {name} = {formula}" if name != formula else f"    {name}"
              for name, formula in self.base.regrouping().items())])


@takes(CheckSettings)
def check(model: Robot, settings: CheckSettings | None = None, **options: Any) -> Check:
    """Assemble a robot at home and count what can be identified."""
    tie_legs, model = settle(CheckSettings, settings, options).tie_legs, as_model(model)
    margins = model.kinematics.margins(model.home[None])
    base = base_parameters(model, tie_legs=tie_legs)
    type1 = float(margins.type1[0])
    return Check(
        robot=model.mechanism.name, title=model.mechanism.title, degrees_of_freedom=model.degrees_of_freedom,
        actuated=model.mechanism.actuated, coordinates=model.mechanism.coordinates, task=model.mechanism.task,
        home=dict(zip(model.mechanism.coordinates, model.home.tolist())),
        closure_residual=float(model.kinematics.residual(model.home[None])[0]),
        type1_margin=None if np.isnan(type1) else type1, type2_margin=float(margins.type2[0]),
        standard_parameters=len(base.standard), base=base, tied=tie_legs, assembly=model.loops.assembly,
        held=model.loops.held)
