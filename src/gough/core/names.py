"""Parameters as values: owner, kind, leg, payload and unit. No other module takes a name apart.

How names are built; the words of robot files hold no dots and start with a letter:

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
from itertools import takewhile

from gough.core.errors import InvalidInput, nearest

PAYLOAD = "payload"  # the first word of what payloads own
GAIN = "gain"
REGROUPED = "R"

# Pinocchio's order, about the joint frame. [kg, kg m, kg m2]
INERTIAL = ("m", "mx", "my", "mz", "Ixx", "Ixy", "Iyy", "Ixz", "Iyz", "Izz")
INERTIAL_UNITS = dict(zip(INERTIAL, ("kg", *("kg m",) * 3, *("kg m2",) * 6)))


@lru_cache(maxsize=4096)
def _parts(text: str) -> dict[str, str | bool | None]:
    owner, _, last = text.rpartition(".")
    kind = last.removesuffix(REGROUPED) or last
    first, _, rest = owner.partition(".")
    payload = rest if first == PAYLOAD else None
    inside = (
        payload is None and rest != "" and not rest[0].isdigit()
    )  # a digit is an axis of the joint `first`
    return {
        "owner": owner,
        "kind": kind,
        "regrouped": kind != last,
        "payload": payload,
        "leg": first if inside else None,
        "local": text.partition(".")[2] if inside else text,
        "inertial": kind in INERTIAL_UNITS and kind == last,
        "is_gain": kind == GAIN and owner != "",
    }


class Parameter(str):
    """The name of a parameter, with what it says.

    Equal to its text, so tables, files and patterns see a string.

    Any text is a name, e.g. `leg1.rod.mx`; one without dots has no owner.
    """

    unit: str  # SI, empty if not known; inertial parameters know theirs
    owner: str  # full name of the body, joint or payload: `leg1.rod`, `payload.disc`
    # what it is of its owner: `mx`, `fv`, `gain`; the same for standard and regrouped parameters
    kind: str
    leg: str | None  # of the owner, or the kind of leg where legs are tied; None outside the legs
    local: str  # the name inside its leg: `rod.mx`; all of it outside the legs
    payload: str | None  # its name, empty for one without a name; None for parameters of the robot
    regrouped: bool  # a base parameter into which others were regrouped
    inertial: bool  # one of the ten inertial parameters of a body or payload
    is_gain: bool  # of a drive

    def __new__(cls, text: str, unit: str = "") -> Parameter:
        """Take a name apart once."""
        self = super().__new__(cls, text)
        vars(self).update(_parts(str(text)))
        own = text.unit if isinstance(text, Parameter) else INERTIAL_UNITS.get(self.kind, "")
        vars(self)["unit"] = unit or own
        return self

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a parameter is a value; its '{name}' cannot be changed")

    @classmethod
    def of(cls, owner: str, kind: str, unit: str = "") -> Parameter:
        """Name a parameter of a body, a joint or (`payload.disc`) a payload."""
        if not kind or "." in kind or (len(kind) > 1 and kind.endswith(REGROUPED)):
            raise InvalidInput(
                f"'{kind}' of '{owner}' cannot be the kind of a parameter: expected a word without "
                f"dots "
                f"whose last letter is not {REGROUPED}, which marks regrouped parameters",
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
        return cls.of(joint, GAIN)

    @property
    def standard(self) -> Parameter:
        """The standard parameter a base parameter is named after."""
        return Parameter(f"{self.owner}.{self.kind}" if self.owner else self.kind, self.unit)

    def regroup(self) -> Parameter:
        """Return the name of the base parameter made of this one and others."""
        return Parameter(self + REGROUPED, self.unit)


LOAD = tuple(
    Parameter.of_payload("load", kind) for kind in INERTIAL
)  # of a load the robot file does not name


def parameters(names: Sequence[str], units: Sequence[str] | None = None) -> tuple[Parameter, ...]:
    """Return names as parameters, with these units if given."""
    given = [getattr(name, "unit", "") for name in names] if units is None else units
    if len(given) != len(names):
        raise InvalidInput(f"{len(names)} parameters but {len(given)} units")
    return tuple(
        name if isinstance(name, Parameter) and name.unit == unit else Parameter(name, unit)
        for name, unit in zip(names, given)
    )


def index_of(names: Sequence[str], name: str, what: str = "parameter") -> int:
    if name not in names:
        raise InvalidInput(f"no {what} '{name}'{nearest(name, names)}", name=name)
    return names.index(name)


def payload_of(owner: str) -> str | None:
    """Return the payload that an owner of parameters is: `disc` of `payload.disc`; None for bodies
    and joints.
    """
    return Parameter.of(owner, INERTIAL[0]).payload


def inside_leg(name: str, leg: str | None) -> str:
    """Return how a body or joint of a leg is called inside it: `slider` of `leg1.slider`."""
    return name if leg is None else name.removeprefix(f"{leg}.")


def words(name: str) -> tuple[str, ...]:
    """Return the words of a dotted name."""
    return tuple(name.split("."))


def last_word(name: str) -> str:
    """Return the last word of a dotted name: `rx` of the coordinate `platform.rx`."""
    return words(name)[-1]


def tied_name(members: Sequence[str]) -> str:
    """Return what names have in common: 'leg1.rod.fv', 'leg2.rod.fv' -> 'leg*.rod.fv'."""
    if len(members) == 1:
        return members[0]

    def beginning(texts: Sequence[str]) -> str:
        return "".join(
            letters[0] for letters in takewhile(lambda letters: len(set(letters)) == 1, zip(*texts))
        )

    head = beginning(members)
    end = beginning([name[len(head) :][::-1] for name in members])[::-1]
    return head + "*" + end[max(end.find("."), 0) :]
