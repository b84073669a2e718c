"""Robot files of closed chains that neither come with Gough nor were made beside it."""

from __future__ import annotations

HORIZONTAL, UPRIGHT = "[0, 0, -9.81]", "[0, -9.81, 0]"
MOTOR, PIN = '["ia", "fv", "fs", "off", "k"]', '["fv", "fs", "k"]'


def _bodies(*names: str, kind: str = "body") -> str:
    return "".join(f'[[{kind}]]\nname = "{name}"\nm = 1.0\n' for name in names)


def _joint(
    name: str, parent: str, child: str, type: str = "revolute", kind: str = "joint", **keys: object
) -> str:
    text = f'[[{kind}]]\nname = "{name}"\ntype = "{type}"\nparent = "{parent}"\nchild = "{child}"\n'
    return text + "".join(f"{key} = {value}\n" for key, value in keys.items())


def _motor(*names: str, **keys: object) -> str:
    return _joint(*names, **{"terms": MOTOR, "actuated": "true"} | keys)  # type: ignore[arg-type]


def _closed(kind: str, a: str, b: str, name: str = "tip", table: str = "closure") -> str:
    return (
        f'[[{table}]]\nname = "{name}"\nkind = "{kind}"\na = {{ body = {a} }}\nb = '
        f"{{ body = {b} }}\n"
    )


def _legs(start: str, coordinates: str, instances: list[str], body: str) -> str:
    return (
        f"[platform]\ncoordinates = [{coordinates}]\nstart = {{ {start} }}\nm = 1.0\n"
        f'[[leg]]\nname = "leg"\ninstances = '
        f"[{', '.join(f'{{ {one} }}' for one in instances)}]\n{body}"
    )


def robot(name: str) -> str:
    """Return the text of a robot file."""
    gravity, length, body = {**LINKAGES, "fading": FADING}[name]
    return (
        f'format = 1\nname = "{name}"\ngravity = {gravity}\n[units]\nlength = "{length}"\nangle = '
        f'"deg"\n'
        f'mass = "g"\n{body}'
    )


def _rrr(size: float) -> str:
    legs = [
        f'name = "{n}", base = {{ polar = [{0.4 * size}, {a}] }}, at = [{0.1 * size}, {a}]'
        for n, a in (("a", 90), ("b", 210), ("c", 330))
    ]
    return _legs(
        f"x = {0.02 * size}, y = {0.01 * size}, rz = 10",
        '"x", "y", "rz"',
        legs,
        _bodies("crank", "rod", kind="leg.body")
        + _motor("motor", "base", "crank", kind="leg.joint", start=100)
        + _joint(
            "knee", "crank", "rod", kind="leg.joint", xyz=[0.22 * size, 0, 0], start=80, terms=PIN
        )
        + _closed(
            "revolute",
            f'"rod", xyz = [{0.22 * size}, 0, 0]',
            '"platform", polar = "$at"',
            table="leg.closure",
        ),
    )


def _hexapod(size: float) -> str:
    corners = zip(
        (7.5, 112.5, 127.5, 232.5, 247.5, 352.5), (52.5, 67.5, 172.5, 187.5, 292.5, 307.5)
    )
    legs = [
        f'name = "l{k}", base = {{ polar = [{0.6 * size}, {a}] }}, at = [{0.4 * size}, {b}, 0]'
        for k, (a, b) in enumerate(corners)
    ]
    return _legs(
        f"x = {0.01 * size}, y = {0.02 * size}, z = {0.75 * size}, rx = 2, ry = 1, rz = 3",
        '"x", "y", "z", "rx", "ry", "rz"',
        legs,
        _bodies("cylinder", "rod", kind="leg.body")
        + _joint(
            "cardan", "base", "cylinder", "universal", "leg.joint", start=[-20, -20], terms='["fv"]'
        )
        + _motor("slide", "cylinder", "rod", "prismatic", "leg.joint", start=0.87 * size)
        + _closed("point", '"rod"', '"platform", polar = "$at"', table="leg.closure"),
    )


_CRANK = _bodies("crank", "coupler", "rocker") + _motor("a", "base", "crank", start=60)
_FOUR = (
    _CRANK
    + _joint("b", "crank", "coupler", xyz=[0.1, 0, 0], start=-20, terms=PIN)
    + _joint("c", "base", "rocker", xyz=[0.3, 0, 0], start=100, terms=PIN)
    + _closed("revolute", '"coupler", xyz = [0.3, 0, 0]', '"rocker", xyz = [0.25, 0, 0]')
)

LINKAGES = {
    "four_bar": (UPRIGHT, "m", _FOUR),
    "parallelogram": (
        UPRIGHT,
        "m",
        _CRANK
        + _joint("b", "crank", "coupler", xyz=[0.2, 0, 0], start=-60, terms=PIN)
        + _joint("c", "base", "rocker", xyz=[0.3, 0, 0], start=60, terms=PIN)
        + _closed("revolute", '"coupler", xyz = [0.3, 0, 0]', '"rocker", xyz = [0.2, 0, 0]'),
    ),
    "watt_six_bar": (
        UPRIGHT,
        "m",
        _FOUR
        + _bodies("arm", "link")
        + _joint("d", "coupler", "arm", xyz=[0.15, 0.2, 0], start=30, terms='["fv"]')
        + _joint("e", "base", "link", xyz=[0.6, 0.1, 0], start=120, terms=PIN)
        + _closed("revolute", '"arm", xyz = [0.35, 0, 0]', '"link", xyz = [0.3, 0, 0]', "second"),
    ),
    "rssr": (
        HORIZONTAL,
        "m",
        _bodies("crank", "rod", "rocker")
        + _motor("a", "base", "crank", start=30)
        + _joint(
            "ball",
            "crank",
            "rod",
            "universal",
            xyz=[0.1, 0, 0.02],
            axes='"zy"',
            start=[-20, 10],
            terms='["fv"]',
        )
        + _joint("c", "base", "rocker", xyz=[0.4, 0.1, 0.05], rpy=[70, 20, 10], start=80, terms=PIN)
        + _closed("point", '"rod", xyz = [0.4, 0, 0]', '"rocker", xyz = [0.3, 0, 0.01]'),
    ),
    "trammel": (
        UPRIGHT,
        "m",
        _bodies("sx", "sy", "bar")
        + _motor("x", "base", "sx", "prismatic", axis='"x"', start=0.2)
        + _joint("y", "base", "sy", "prismatic", axis='"y"', start=0.25, terms=PIN)
        + _joint("r", "sx", "bar", start=128, terms=PIN)
        + _closed("point", '"bar", xyz = [0.32, 0, 0]', '"sy"'),
    ),
    "geared_shoulder": (
        UPRIGHT,
        "m",
        _bodies("rotor", "upper", "lower", "rotor2", "upper2", "lower2")
        + _motor("m1", "base", "rotor", start=-12000, terms='["fv", "fs"]')
        + _joint("s1", "base", "upper", xyz=[-0.1, 0, 0], start=120, terms=MOTOR)
        + _joint("e1", "upper", "lower", xyz=[0.25, 0, 0], start=-90, terms=PIN)
        + _motor("m2", "base", "rotor2", start=3000, terms='["fv", "fs"]')
        + _joint("s2", "base", "upper2", xyz=[0.1, 0, 0], start=60, terms=MOTOR)
        + _joint("e2", "upper2", "lower2", xyz=[0.25, 0, 0], start=90, terms=PIN)
        + '[[closure]]\nname = "g1"\nkind = "coupling"\ncoefficients = { m1 = 1, s1 = 100 }\n'
        + '[[closure]]\nname = "g2"\nkind = "coupling"\ncoefficients = { m2 = 1, s2 = -50 }\n'
        + _closed("point", '"lower", xyz = [0.35, 0, 0]', '"lower2", xyz = [0.35, 0, 0]'),
    ),
    "palletiser": (
        HORIZONTAL,
        "m",
        _bodies("tower", "upper", "fore", "crank", "rod", "hand")
        + _motor("q1", "base", "tower")
        + _motor("q2", "tower", "upper", xyz=[0.2, 0, 0.5], rpy=[90, 0, 0], start=80)
        + _motor("q3", "tower", "crank", xyz=[0.2, 0, 0.5], rpy=[90, 0, 0], start=160)
        + _joint("elbow", "upper", "fore", xyz=[0.8, 0, 0], start=-100, terms=PIN)
        + _joint("knee", "crank", "rod", xyz=[0.3, 0, 0], start=-80, terms='["fv"]')
        + _joint("wrist", "fore", "hand", xyz=[0.9, 0, 0], start=20, terms=PIN)
        + _closed("revolute", '"rod", xyz = [0.8, 0, 0]', '"fore", xyz = [-0.3, 0, 0]')
        + '[[closure]]\nname = "level"\nkind = "coupling"\ncoefficients = { q2 = 1, elbow = 1, '
        "wrist = 1 }\n",
    ),
    "crane_of_30_m": (
        HORIZONTAL,
        "m",
        _bodies("boom", "cylinder", "rod", "jib", "cylinder2", "rod2", "hook")
        + _joint("swing", "base", "boom", rpy=[90, 0, 0], start=60, terms=PIN)
        + _joint(
            "ram", "base", "cylinder", xyz=[4, 0, -1], rpy=[90, 0, 0], start=100, terms='["fv"]'
        )
        + _motor("push", "cylinder", "rod", "prismatic", axis='"x"', start=9)
        + _joint("bend", "boom", "jib", xyz=[18, 0.5, 0], start=-50, terms=PIN)
        + _joint("ram2", "boom", "cylinder2", xyz=[9, 1.5, 0], start=5, terms='["fv"]')
        + _motor("push2", "cylinder2", "rod2", "prismatic", axis='"x"', start=10)
        + _motor("turn", "jib", "hook", xyz=[12, 0, 0], start=-100)
        + _closed("point", '"rod"', '"boom", xyz = [9, -0.8, 0]')
        + _closed("point", '"rod2"', '"jib", xyz = [-1.5, 1.2, 0]', "second"),
    ),
    "planar_3ppr": (
        UPRIGHT,
        "m",
        _legs(
            "x = 0.01, y = 0.02, rz = 5",
            '"x", "y", "rz"',
            [
                f'name = "{n}", base = {{ polar = [0.5, {a}] }}, at = [0.1, {a}]'
                for n, a in (("a", 0), ("b", 120), ("c", 240))
            ],
            _bodies("cart", "slide", kind="leg.body")
            + _motor("rail", "base", "cart", "prismatic", "leg.joint", axis='"y"')
            + _joint(
                "cross",
                "cart",
                "slide",
                "prismatic",
                "leg.joint",
                axis='"x"',
                start=-0.35,
                terms=PIN,
            )
            + _closed("point", '"slide"', '"platform", polar = "$at"', table="leg.closure"),
        ),
    ),
    "spatial_3upu": (
        HORIZONTAL,
        "m",
        _legs(
            "x = 0.02, y = 0.01, z = 0.5",
            '"x", "y", "z"',
            [
                f'name = "{n}", base = {{ polar = [0.4, {a}] }}, g = {a}'
                for n, a in (("a", 0), ("b", 120), ("c", 240))
            ],
            _bodies("u1", "cylinder", "rod", "u2", kind="leg.body")
            + _joint("t1", "base", "u1", kind="leg.joint", axis='"y"', start=-25, terms=PIN)
            + _joint("t2", "u1", "cylinder", kind="leg.joint", axis='"x"', start=2, terms=PIN)
            + _motor("slide", "cylinder", "rod", "prismatic", "leg.joint", start=0.56)
            + _joint("t3", "rod", "u2", kind="leg.joint", axis='"x"', start=-2, terms='["fv"]')
            + _closed(
                "revolute",
                '"u2", rpy = [-90, 0, 0]',
                '"platform", mdh = { gamma = "$g", d = 0.15, alpha = -90 }',
                table="leg.closure",
            ),
        ),
    ),
    "spherical_3ups": (
        HORIZONTAL,
        "m",
        _legs(
            "rz = 4, ry = 3, rx = -5",
            '"rz", "ry", "rx"',
            [
                f'name = "{n}", base = {{ polar = [0.4, {a}, -0.5] }}, at = [0.2, {b}, 0.1]'
                for n, a, b in (("a", 0, 30), ("b", 120, 140), ("c", 240, 260))
            ],
            _bodies("cylinder", "rod", kind="leg.body")
            + _joint(
                "cardan",
                "base",
                "cylinder",
                "universal",
                "leg.joint",
                start=[0, -20],
                terms='["fv"]',
            )
            + _motor("slide", "cylinder", "rod", "prismatic", "leg.joint", start=0.65)
            + _closed("point", '"rod"', '"platform", polar = "$at"', table="leg.closure"),
        ),
    ),
    "hexapod_6rus": (
        HORIZONTAL,
        "m",
        _legs(
            "x = 0.01, y = 0.02, z = 0.35, rx = 2, ry = 1, rz = 3",
            '"x", "y", "z", "rx", "ry", "rz"',
            [
                f'name = "l{k}", base = {{ polar = [0.3, {a}] }}, at = [0.12, {b}, 0]'
                for k, (a, b) in enumerate(
                    zip((15, 105, 135, 225, 255, 345), (45, 75, 165, 195, 285, 315))
                )
            ],
            _bodies("crank", "rod", kind="leg.body")
            + _motor("motor", "base", "crank", kind="leg.joint", axis='"y"', start=-20)
            + _joint(
                "cardan",
                "crank",
                "rod",
                "universal",
                "leg.joint",
                xyz=[0.1, 0, 0],
                axes='"yx"',
                start=[-40, 5],
                terms='["fv"]',
            )
            + _closed(
                "point",
                '"rod", xyz = [0, 0, 0.35]',
                '"platform", polar = "$at"',
                table="leg.closure",
            ),
        ),
    ),
    "rrr_of_100_um": (UPRIGHT, "um", _rrr(100)),
    "rrr_of_100_nm": (UPRIGHT, "um", _rrr(0.1)),
    "rrr_of_30_m": (UPRIGHT, "m", _rrr(30)),
    "hexapod_of_100_um": (HORIZONTAL, "um", _hexapod(100)),
    "hexapod_of_30_m": (HORIZONTAL, "m", _hexapod(30)),
}

# Two loops of two spatial branches with one freedom together: of its 45 parameters the last show
# 1e-24 of the first.
FADING = (
    HORIZONTAL,
    "m",
    _bodies(*(f"b{k}" for k in range(7)))
    + "".join(
        _joint(
            f"q{k}",
            parent,
            f"b{k}",
            kind,
            xyz=xyz,
            rpy=rpy,
            start=start,
            terms=terms,
            actuated=str(k == 2).lower(),
        )
        for k, (parent, kind, xyz, rpy, start, terms) in enumerate(
            [
                ("base", "revolute", [-29.7, 24.6, 29.1], [-76.9, 112.9, -150.3], -7.4, "[]"),
                (
                    "b0",
                    "prismatic",
                    [-5.4, 1.2, -23.1],
                    [113, -0.8, -90.6],
                    14.37684868,
                    '["fv", "k"]',
                ),
                ("b1", "revolute", [29.7, -28.2, 6], [168.2, -137.8, -99.7], 26.7, '["fs"]'),
                ("b2", "revolute", [3, -27, 14.4], [-64.5, -153.4, 165], -5.3, '["fv", "k"]'),
                ("b3", "revolute", [-22.5, 6.3, 14.7], [87.9, 18.6, 154.3], 45, '["fs"]'),
                ("b3", "revolute", [-13.8, 1.8, 9.3], [-122.2, 21.4, -22], -12, '["fv", "k"]'),
                (
                    "b4",
                    "prismatic",
                    [-26.7, 25.8, 24.6],
                    [35.9, -112.6, 104.9],
                    4.99269261,
                    '["fv", "k"]',
                ),
            ]
        )
    )
    + _closed(
        "point",
        '"b5", xyz = [-4.5, -2.4, -11.7]',
        '"base", xyz = [-115.8993202935211, 63.08046585434898, 34.44045109907741]',
    )
    + _closed(
        "point",
        '"b6", xyz = [-8.4, 19.5, 19.8]',
        '"base", xyz = [-109.00453368033223, 72.98975874120207, 52.74076708969923]',
        "second",
    ),
)
