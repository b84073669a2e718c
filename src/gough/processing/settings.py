"""How logs become motions and regressions: the options every verb that reads logs shares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from gough.core.options import Settings, option

Method = Literal["auto", "explicit", "implicit", "time", "raw"]


@dataclass(frozen=True, kw_only=True)
class Processing(Settings):
    """How a recording becomes a motion; what is None is found from the data.

    Methods: `explicit`: average the periods, forward kinematics, DFT of the pose, ideal low-pass, j omega (AH09 3.3).
    `implicit`: least-squares Fourier fit of the pose at the nominal frequency (AH09 (17)-(18)). `time`: zero-phase
    Butterworth on the actuated positions and central differences (BG13, P03). `raw`: central differences of what was
    recorded. `auto`: explicit if there are at least two periods.

    Regressor and effort are decimated in parallel, low-passed before. Reversals of friction then need no window, but
    `cutoff` should be well above rate / (2 decimation).
    """

    method: Method = option("auto", "How logs are processed; auto chooses by the log.")
    cutoff: float | None = option(None, "Low-pass cut-off of the motion; from the data by default.", unit="Hz", above=0)
    decimation: int | None = option(None, "Keep one of so many samples; from the data by default.", least=1)
    window: float | None = option(None, "Leave out so much about velocity reversals; from the data by default.",
                                  unit="s", least=0)
    dead_band: float | Mapping[str, float] | None = option(
        None, "Speed below which Coulomb friction is interpolated, of all joints or joint=value; from the noise by "
        "default.", unit="m/s or rad/s", least=0)
    harmonics: int = option(5, "Harmonics of the implicit fit.", least=1)
    frequency: float | None = option(None, "Fundamental of the implicit fit; that of the recorded period by default.",
                                     unit="Hz", above=0)
