"""Units put together from others have the factors that follow from these."""

from __future__ import annotations

import math

import pytest

from gough.core.units import KNOWN_UNITS, conversion, is_unit

CM, MM, UM = 1e-2, 1e-3, 1e-6  # [m]
DEGREE = 2 * math.pi / 360  # [rad]
GRAM = 1e-3  # [kg]
COMPOSED = {
    "um": UM,
    "in": 2.54 * CM,
    "rev": 360 * DEGREE,
    "deg": DEGREE,
    "deg/s": DEGREE,
    "deg/s2": DEGREE,
    "rpm": 360 * DEGREE / 60,
    "mm/s": MM,
    "mm/s2": MM,
    "gm2": GRAM,
    "kgcm2": CM**2,
    "kgmm2": MM**2,
    "gmm2": GRAM * MM**2,
    "gcm2": GRAM * CM**2,
    "kgmm": MM,
    "gmm": GRAM * MM,
    "%": 1 / 100,
    "‰": 1 / 1000,
    "permille": 1 / 1000,
    "g": GRAM,
    "min": 60.0,
    "mdeg/s": DEGREE / 1000,
    "deg/min": DEGREE / 60,
    "rev/s": 360 * DEGREE,
    "cm/s": CM,
    "um/s": UM,
    "m/min": 1 / 60,
    "mm/min": MM / 60,
    "Ncm": CM,
    "Nmm": MM,
}
PREFIXES = {"k": 1e3, "c": 1e-2, "m": 1e-3, "u": 1e-6, "n": 1e-9}
WITH_PREFIX = ["mm", "cm", "um", "mrad", "ms", "us", "ns", "kHz", "kN", "mN", "mNm", "kNm", "mA"]
WITH_PREFIX += ["mdeg", "uA", "mrad/s"]


@pytest.mark.parametrize("unit", COMPOSED)
def test_a_composed_unit_has_the_factor_of_its_parts(unit: str) -> None:
    assert conversion(unit) == pytest.approx(COMPOSED[unit], rel=1e-14)


@pytest.mark.parametrize("unit", [*WITH_PREFIX, "mV"])
def test_a_prefix_multiplies_the_unit_behind_it(unit: str) -> None:
    assert conversion(unit) == pytest.approx(PREFIXES[unit[0]] * conversion(unit[1:]))


def test_all_other_units_are_those_of_the_system() -> None:
    others = set(KNOWN_UNITS) - set(COMPOSED) - set(WITH_PREFIX) - {"mV"}
    assert {unit for unit in others if conversion(unit) != 1.0} == set()


@pytest.mark.parametrize(
    ("word", "unit"),
    [
        ("Degrees", "deg"),
        ("sec", "s"),
        ("N-m", "Nm"),
        ("U/min", "rpm"),
        ("deg/sec", "deg/s"),
        ("DEG", "deg"),
        ("RPM", "rpm"),
        ("NM", "Nm"),
        ("rad s^-1", "rad/s"),
        ("0.1 %", "permille"),
        ("milliseconds", "ms"),
        ("turns", "rev"),
        ("U/s", "rev/s"),
    ],
)
def test_words_of_other_programs_are_units(word: str, unit: str) -> None:
    assert conversion(word) == conversion(unit)


def test_a_nanometre_is_not_taken_for_a_torque() -> None:
    assert not is_unit("nm")
