"""Names of parameters, with owner, kind, leg, payload and unit; only this module parses names.

How names are built; the words of robot files hold no dots and start
with a letter:

    platform.m          mass of a body outside the legs
    leg1.rod.mx         first moment of the body `rod` of the leg `leg1`
    leg.rod.mx          the same of all legs of the kind `leg`, tied
    leg1.slider.fv      viscous friction of a joint
    wrist.2.fv          the same of the second axis of a universal joint outside the legs
    leg1.slider.gain    gain of a drive
    payload.disc.m      mass of the payload `disc`; `payload.m` of one without a name
    leg1.rod.IxxR       base parameter: others are regrouped into leg1.rod.Ixx
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from operator import attrgetter

from gough.core.errors import InvalidInput, nearest

PAYLOAD = "payload"  # first word of the names of payload parameters
GAIN_KIND = "gain"  # kind of the gain of a drive
UNIT_OF_NAME = attrgetter("unit")
# last letter of base parameters into which others were regrouped
REGROUPED = "R"

# Pinocchio's order, about the joint frame. [kg, kg m, kg m2]
INERTIAL = ("m", "mx", "my", "mz", "Ixx", "Ixy", "Iyy", "Ixz", "Iyz", "Izz")
INERTIAL_UNITS = dict(zip(INERTIAL, ("kg", *("kg m",) * 3, *("kg m2",) * 6)))


@lru_cache(maxsize=4096)
def _parse_name(text: str) -> dict[str, str | bool | None]:
    """Return the attributes of `Parameter` that follow from the text of a name."""
    owner, _, last = text.rpartition(".")
    kind = last.removesuffix(REGROUPED) or last
    first, _, inner = owner.partition(".")
    payload = inner if first == PAYLOAD else None
    is_axis = inner[:1].isdigit()  # second axis of the joint `first`
    in_leg = payload is None and inner != "" and not is_axis
    return {
        "owner": owner,
        "kind": kind,
        "regrouped": kind != last,
        "payload": payload,
        "leg": first if in_leg else None,
        "local": text.partition(".")[2] if in_leg else text,
        "inertial": kind in INERTIAL_UNITS and kind == last,
        "is_gain": kind == GAIN_KIND and owner != "",
    }


class Parameter(str):
    """The name of a parameter, with the attributes that follow from it.

    It is equal to its text, so tables, files and patterns see a string.
    Any text is a name, e.g. `leg1.rod.mx`; one without dots has no
    owner.
    """

    unit: str  # SI, empty if not known; inertial parameters have theirs
    # full name of the body, joint or payload: `leg1.rod`,
    # `payload.disc`
    owner: str
    # `mx`, `fv`, `gain`; the same for standard and regrouped parameters
    kind: str
    # of the owner, or the kind of leg where legs are tied; None outside
    # the legs
    leg: str | None
    local: str  # the name inside its leg: `rod.mx`; all of it outside the legs
    # its name, empty for one without a name; None for parameters of the
    # robot
    payload: str | None
    regrouped: bool  # a base parameter into which others were regrouped
    inertial: bool  # one of the ten inertial parameters of a body or payload
    is_gain: bool  # of a drive

    def __new__(cls, text: str, unit: str = "") -> Parameter:
        """Parse a name; the unit is that of the name if none is given."""
        self = super().__new__(cls, text)
        vars(self).update(_parse_name(str(text)))
        if not unit and isinstance(text, Parameter):
            unit = text.unit
        elif not unit:
            unit = INERTIAL_UNITS.get(self.kind, "")
        vars(self)["unit"] = unit
        return self

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a parameter is a value; its '{name}' cannot be changed")

    @classmethod
    def of(cls, owner: str, kind: str, unit: str = "") -> Parameter:
        """Name a parameter of a body, a joint or (`payload.disc`) a payload."""
        if not kind or "." in kind or (len(kind) > 1 and kind.endswith(REGROUPED)):
            raise InvalidInput(
                f"'{kind}' of '{owner}' cannot be the kind of a parameter: expected a word without "
                f"dots whose last letter is not {REGROUPED}, which marks regrouped parameters",
                kind=kind,
            )
        return cls(f"{owner}.{kind}", unit)

    @classmethod
    def of_payload(cls, payload: str, kind: str) -> Parameter:
        """Name an inertial parameter of a payload."""
        return cls.of(f"{PAYLOAD}.{payload}", kind)

    @classmethod
    def gain(cls, joint: str) -> Parameter:
        """Name the drive gain of a joint."""
        return cls.of(joint, GAIN_KIND)

    @property
    def standard(self) -> Parameter:
        """The standard parameter a base parameter is named after."""
        return Parameter(f"{self.owner}.{self.kind}" if self.owner else self.kind, self.unit)

    def regroup(self) -> Parameter:
        """Return the name of the base parameter made of this one and others."""
        return Parameter(self + REGROUPED, self.unit)


# The parameters of a payload that the robot file does not declare.
LOAD_PARAMETERS = tuple(Parameter.of_payload("load", kind) for kind in INERTIAL)


def parameters(names: Sequence[str], units: Sequence[str] | None = None) -> tuple[Parameter, ...]:
    """Return names as parameters, with these units if given."""
    if units is None:
        units = [getattr(name, "unit", "") for name in names]
    if len(units) != len(names):
        raise InvalidInput(f"{len(names)} parameters but {len(units)} units")
    if set(map(type, names)) == {Parameter} and list(map(UNIT_OF_NAME, names)) == list(units):
        return tuple(names)  # type: ignore[arg-type]
    named = []
    for name, unit in zip(names, units):
        if isinstance(name, Parameter) and name.unit == unit:
            named.append(name)
        else:
            named.append(Parameter(name, unit))
    return tuple(named)


def index_of(names: Sequence[str], name: str, what: str = "parameter") -> int:
    """Return the position of a name; raises `InvalidInput` with the nearest names if absent."""
    if name not in names:
        raise InvalidInput(f"no {what} '{name}'{nearest(name, names)}", name=name)
    return names.index(name)


def payload_of(owner: str) -> str | None:
    """Return the payload of an owner: `disc` of `payload.disc`; None for bodies and joints."""
    return Parameter.of(owner, INERTIAL[0]).payload


def inside_leg(name: str, leg: str | None) -> str:
    """Return the name of a body or joint inside its leg: `slider` of `leg1.slider`."""
    return name if leg is None else name.removeprefix(f"{leg}.")


def words(name: str) -> tuple[str, ...]:
    """Return the words of a dotted name."""
    return tuple(name.split("."))


def last_word(name: str) -> str:
    """Return the last word of a dotted name: `rx` of the coordinate `platform.rx`."""
    return words(name)[-1]


def tied_name(members: Sequence[str]) -> str:
    """Return the common pattern of names: 'leg1.rod.fv', 'leg2.rod.fv' -> 'leg*.rod.fv'."""
    if len(members) == 1:
        return members[0]
    head = _common_beginning(members)
    reversed_tails = [name[len(head) :][::-1] for name in members]
    tail = _common_beginning(reversed_tails)[::-1]
    return head + "*" + tail[max(tail.find("."), 0) :]


def _common_beginning(texts: Sequence[str]) -> str:
    beginning = ""
    for letters in zip(*texts):
        if len(set(letters)) > 1:
            break
        beginning += letters[0]
    return beginning
