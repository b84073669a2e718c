"""Settings of the processing: one for all logs of an experiment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.errors import InvalidInput, nearest
from gough.core.options import Settings, option
from gough.logs.recording import Recording

Method = Literal["auto", "explicit", "implicit", "time", "raw"]
Repeats = Literal["declared", "found"]

PERIODIC = ("explicit", "implicit")  # methods that average periods
# Fraction of the new Nyquist frequency that parallel decimation keeps:
# n_d = floor(DECIMATION_EDGE rate / (2 cutoff)).
DECIMATION_EDGE = 0.8
# Highest cut-off as a fraction of the sampling rate: nothing is
# decimated any more there.
MAX_CUTOFF_RATIO = 0.4


@dataclass(frozen=True, kw_only=True)
class Processing(Settings):
    """How the recordings of an experiment are processed; None is chosen from the data.

    `choose_processing` fills in settings that are None, once for all
    logs of an experiment. The complete settings are stored with a
    result, and other logs are processed with exactly these numbers. The
    methods:

    `explicit`: average the periods, forward kinematics, DFT of the
    pose, ideal low-pass, j omega (AH09 3.3). `implicit`: least-squares
    Fourier fit of the pose at the nominal frequency (AH09 (17)-(18)).
    `time`: zero-phase low-pass of the actuated positions, regressor and
    effort low-passed in parallel (BG13). `raw`: recorded positions,
    differentiated. `auto`: explicit if all logs have at least two
    periods, else time.
    """

    heading = "Processing of the logs"

    method: Method = option(
        "auto",
        "How logs are processed; auto averages periods where all logs have two.",
    )
    cutoff: float | None = option(
        None,
        "Low-pass cut-off of the motion; from the data by default.",
        unit="Hz",
        above=0,
    )
    decimation: int | None = option(
        None,
        "Keep every n-th sample; n follows the cut-off by default.",
        least=1,
    )
    dead_band: float | Mapping[str, float] | None = option(
        None,
        "Speed below which the sign of Coulomb friction is in doubt, of all joints or joint=value; "
        "from noise and friction in the data by default, at least the robot file's friction_width.",
        unit="m/s or rad/s",
        least=0,
    )
    window: float | None = option(
        None,
        "Exclude equations this near to a velocity reversal; from the data by default.",
        unit="s",
        least=0,
    )
    joints_at_rest: tuple[str, ...] | None = option(
        None,
        "Joints at rest most of the time, whose samples at zero velocity are kept; from the data "
        "by default.",
    )
    repeats: Repeats = option(
        "declared",
        "Periods to use: those the log states, or also those its motion shows.",
    )
    harmonics: int = option(5, "Harmonics of the implicit fit.", least=1)
    frequency: float | None = option(
        None,
        "Fundamental of the implicit fit; that of the recorded period by default.",
        unit="Hz",
        above=0,
    )

    @property
    def complete(self) -> bool:
        """True if nothing remains to be chosen."""
        filtered = self.method == "raw" or self.cutoff is not None
        return (
            self.method != "auto"
            and filtered
            and self.decimation is not None
            and self.window is not None
            and isinstance(self.dead_band, Mapping)
            and self.joints_at_rest is not None
        )

    def bands(self, coordinates: tuple[str, ...]) -> FloatArray:
        """Return the dead band of each coordinate, zero if not given, (n,). [m/s or rad/s]"""
        given = self.dead_band
        if not isinstance(given, Mapping):
            return np.full(len(coordinates), given or 0.0)
        for name in given:
            if name not in coordinates:
                raise InvalidInput(
                    f"dead band of '{name}', which is no joint{nearest(name, coordinates)}"
                )
        return np.array([given.get(name, 0.0) for name in coordinates])

    def with_wider_bands(self, widths: Mapping[str, float]) -> Processing:
        """Return the settings with dead bands at least so wide, by joint. [m/s or rad/s]

        One number that was given for all joints is kept.
        """
        if not isinstance(self.dead_band, Mapping):
            return self
        wider = dict(self.dead_band)
        for joint, width in widths.items():
            wider[joint] = max(wider.get(joint, 0.0), width)
        return replace(self, dead_band=wider)

    def method_for(self, recording: Recording) -> Method:
        """Return the method for one log: `time` for a log without periods among periodic ones."""
        if self.method in ("auto", *PERIODIC) and recording.period_count < 2:
            return "time"
        if self.method == "auto":
            return "explicit"
        return self.method

    def excluded_samples(self, rate: float) -> int:
        """Return how many samples are excluded on both sides of a velocity reversal."""
        return _whole_samples((self.window or 0.0) * rate)

    def smeared_samples(self, rate: float) -> int:
        """Return over how many samples the low-pass smears the end of a rest: 1 / (2 cut-off)."""
        if self.cutoff is None:
            return 0
        return _whole_samples(rate / (2 * self.cutoff))


def _whole_samples(samples: float) -> int:
    """Return the nearest whole number; halves are rounded alike in all blocks of a log.

    The rate of a block may differ in the last digits, which must not
    matter.
    """
    return round(round(samples, 3))


def decimation_of(cutoff: float, rate: float) -> int:
    """Return the decimation whose low-pass has the cut-off of the positions.

    n_d = floor(0.8 rate / (2 cutoff)), BG13 after (19).
    """
    return max(1, int(DECIMATION_EDGE * rate / (2.0 * cutoff) * (1 + 1e-9)))
