"""Parameters are values: what a name says is read in one place."""

from __future__ import annotations

import copy
import json
import pickle

import numpy as np
import pytest
from hypothesis import given, strategies as st

from gough.core.errors import InvalidInput
from gough.core.names import (
    INERTIAL,
    LOAD_PARAMETERS,
    Parameter,
    inside_leg,
    last_word,
    parameters,
    payload_of,
    tied_name,
    words,
)
from gough.core.parameters import BaseParameters, ParameterTable

# text: owner, kind, leg, local, payload, regrouped
NAMES = {
    "platform.m": ("platform", "m", None, "platform.m", None, False),
    "leg1.rod.mx": ("leg1.rod", "mx", "leg1", "rod.mx", None, False),
    "leg1.rod.IxxR": ("leg1.rod", "Ixx", "leg1", "rod.IxxR", None, True),
    "leg2.wrist.3.fv": ("leg2.wrist.3", "fv", "leg2", "wrist.3.fv", None, False),
    "wrist.3.fv": ("wrist.3", "fv", None, "wrist.3.fv", None, False),
    "leg1.slider.gain": ("leg1.slider", "gain", "leg1", "slider.gain", None, False),
    "payload.disc.mzR": ("payload.disc", "mz", None, "payload.disc.mzR", "disc", True),
    "payload.m": ("payload", "m", None, "payload.m", "", False),
    "payloads.m": ("payloads", "m", None, "payloads.m", None, False),
    "leg*.rod.fv": ("leg*.rod", "fv", "leg*", "rod.fv", None, False),
    "inertia": ("", "inertia", None, "inertia", None, False),
    "payload": ("", "payload", None, "payload", None, False),
    "R": ("", "R", None, "R", None, False),
    "": ("", "", None, "", None, False),
}


@pytest.mark.parametrize("text", NAMES)
def test_a_name_says_owner_kind_leg_and_payload(text: str) -> None:
    p = Parameter(text)
    assert (p.owner, p.kind, p.leg, p.local, p.payload, p.regrouped) == NAMES[text]
    assert p == text
    assert hash(p) == hash(text)


def test_only_gains_of_a_joint_are_gains() -> None:
    assert [
        name
        for name in ("leg1.slider.gain", "gain", "leg1.again", "gain.fv")
        if Parameter(name).is_gain
    ] == ["leg1.slider.gain"]
    assert Parameter.gain("leg1.slider") == "leg1.slider.gain"


def test_regrouped_inertia_is_of_no_body() -> None:
    """A base parameter is a sum over bodies, so no body owns it."""
    assert Parameter("rod.m").inertial
    assert not Parameter("rod.mR").inertial
    assert not Parameter("rod.fv").inertial


word = st.from_regex(r"[A-Za-z_][A-Za-z0-9_-]{0,6}", fullmatch=True)
kinds = st.sampled_from([*INERTIAL, "ia", "fv", "fs", "off", "k", "gain"])


@given(
    st.one_of(st.none(), word.filter(lambda leg: leg != "payload")),
    word.filter(lambda w: w != "payload"),
    kinds,
    st.booleans(),
)
def test_what_is_built_is_read_back(leg: str | None, item: str, kind: str, more: bool) -> None:
    owner = item if leg is None else f"{leg}.{item}"
    built = Parameter.of(owner, kind, "kg")
    name = Parameter(str(built.regroup() if more else built))
    assert (name.owner, name.kind, name.leg, name.payload, name.regrouped) == (
        owner,
        kind,
        leg,
        None,
        more,
    )
    assert name.standard == built
    assert name.standard.regrouped is False
    assert inside_leg(owner, leg) == item
    assert payload_of(owner) is None


@given(word, kinds)
def test_payload_parameters_are_read_back(payload: str, kind: str) -> None:
    name = Parameter(str(Parameter.of_payload(payload, kind)))
    assert (name.payload, name.kind, name.leg) == (payload, kind, None)
    assert payload_of(name.owner) == payload


@pytest.mark.parametrize("kind", ["", "a.b", "stribeckR"])
def test_a_kind_that_would_be_read_as_another_is_refused(kind: str) -> None:
    with pytest.raises(InvalidInput, match="cannot be the kind of a parameter"):
        Parameter.of("motor", kind)


def test_the_unit_travels_with_the_name() -> None:
    assert [p.unit for p in LOAD_PARAMETERS] == ["kg"] + 3 * ["kg m"] + 6 * ["kg m2"]
    friction = Parameter.of("motor", "fv", "N s/m")
    assert (
        Parameter(friction).unit
        == friction.regroup().unit
        == friction.regroup().standard.unit
        == "N s/m"
    )
    assert Parameter("motor.fv").unit == ""
    assert [p.unit for p in parameters([friction, "b"], ["g", "m"])] == ["g", "m"]
    with pytest.raises(InvalidInput, match="1 parameters but 2 units"):
        parameters(["a"], ["m", "m"])


def test_a_table_takes_the_units_its_names_know() -> None:
    table = ParameterTable(
        names=(Parameter("rod.m"), Parameter.of("motor", "fv", "N s/m")), values=np.ones(2)
    )
    assert table.units == ("kg", "N s/m")
    with pytest.raises(InvalidInput, match=r"unit of parameter 'motor\.fv' is not known"):
        ParameterTable(names=(Parameter("motor.fv"),), values=np.ones(1))


def test_base_parameters_make_values_of_plain_names() -> None:
    base = BaseParameters(
        names=("a.fvR",),
        units=("N",),
        standard=("a.fv", "b.fv"),
        matrix=np.ones((1, 2)),
        independent=(0,),
        singular_values=np.ones(2),
        tolerance=1e-7,
    )
    assert (base.names[0].kind, base.names[0].unit, base.standard[1].owner) == ("fv", "N", "b")


def test_a_parameter_survives_copies_and_files() -> None:
    name = Parameter.of("leg1.slider", "fv", "N s/m")
    for twin in (copy.deepcopy(name), pickle.loads(pickle.dumps(name))):
        assert (twin, twin.unit, twin.leg) == (name, "N s/m", "leg1")
    assert json.loads(json.dumps({name: [name]})) == {"leg1.slider.fv": ["leg1.slider.fv"]}
    with pytest.raises(AttributeError):
        name.kind = "fs"  # type: ignore[misc]


def test_words_of_coordinates() -> None:
    assert words("platform.rx") == ("platform", "rx")
    assert last_word("platform.rx") == last_word("rx") == "rx"


def test_tied_names_show_what_they_share() -> None:
    assert tied_name(("leg1.rod.fv", "leg2.rod.fv")) == "leg*.rod.fv"
