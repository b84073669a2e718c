"""The verb that takes in robots of other programs: it closes their loops and guesses what their
files leave open.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, cast

import numpy as np

from gough.app.studies.verbs import Done, Force, from_file, to_file
from gough.core.display import join_names
from gough.core.errors import InvalidMechanism, LoopNotClosed, SingularConfiguration, nearest
from gough.core.files import require_free, write_text
from gough.core.options import Settings, option
from gough.engine.loops import Loops
from gough.engine.mobility import analyse_mobility, find_start_pose
from gough.formats.read import read_tree
from gough.formats.robot_description import (
    Description,
    clamp_to_limits,
    describe,
    drop_placeholder_limits,
)
from gough.formats.tree import FREE_MOTIONS, Connection, Link, Loop, RobotTree
from gough.mechanism import parse_robot, robot_text
from gough.mechanism.closures import CLOSURES
from gough.mechanism.placement import IDENTITY, inverse, transform

AWAY = (0.1, 0.2, 0.4, 0.8)  # how far starts are drawn from a singular one [m or rad]
WELL = 2e-3  # distance to a singularity that will do; the bundled robots start at 0.07 to 0.35


@dataclass(frozen=True, kw_only=True)
class ImportSettings(Settings):
    """What a file may leave open."""

    loops: str | None = option(
        None,
        "YAML that closes the loops of a URDF; the one of the same name beside it by default.",
        file=True,
    )
    motors: Sequence[str] = option(
        (), "Joints that are motors (a,b,c); those the file names by default."
    )
    lock: Sequence[str] = option((), "Joints to hold still (a,b,c).")
    velocity: float | None = option(
        None,
        "Velocity limit of all motors; those of the file by default.",
        unit="rad/s or m/s",
        above=0,
    )
    effort: float | None = option(
        None, "Effort limit of all motors; those of the file by default.", unit="N m or N", above=0
    )
    platform: str | None = option(None, "Link that carries the tool: gets task coordinates.")


def import_(
    file: Annotated[str, from_file("The robot: .urdf, .xml (MJCF), .sdf or .par (SYMORO).")],
    settings: ImportSettings,
    *,
    output: Annotated[
        str | None, to_file("Robot file to write; the file's name with .toml by default.")
    ] = None,
    force: Force = False,
) -> Done:
    """Do what `gough import` does; see `VERBS`."""
    target = Path(output) if output is not None else Path(file).with_suffix(".toml")
    require_free(target, force)
    text, source = robot_text(file)
    tree = read_tree(text, source, settings.loops)
    motors, lock = (
        [name.strip() for text in given for name in text.split(",") if name.strip()]
        for given in (settings.motors, settings.lock)
    )
    if motors:
        tree = tree.with_motors(motors)
    if lock:
        tree = _locked(tree, source, lock)
    tree = drop_placeholder_limits(tree)
    tree = replace(
        tree,
        joints=tuple(
            replace(
                j,
                limits=replace(
                    j.limits,
                    velocity=settings.velocity or j.limits.velocity,
                    effort=settings.effort or j.limits.effort,
                ),
            )
            if j.actuated
            else j
            for j in tree.joints
        ),
    )
    done, closed = _closed(tree, source)
    if settings.platform is not None:
        done, closed = _closed(_with_platform(tree, settings.platform, done, closed), source)
    write_text(target, done.text)
    mechanism, free = closed.mechanism, closed.degrees_of_freedom
    joints, loops = len(mechanism.joints), len(mechanism.closures) - len(closed.locked)
    facts = {
        "robot": mechanism.name,
        "files": [str(target)],
        "degrees_of_freedom": free,
        "motors": list(mechanism.actuated),
        "joints": joints,
        "loops": loops,
        "assembly": closed.assembly,
        "notes": list(done.notes),
    }
    return Done(
        [target],
        facts,
        [
            f"{mechanism.name}: {free} degrees of freedom, {joints} joints, {loops} loops",
            f"  motors     {', '.join(mechanism.actuated)}",
            f"  assembled  {closed.assembly}",
            *(f"  {note}" for note in done.notes),
        ],
        next="check",
    )


def _started(tree: RobotTree, done: Description, loops: Loops) -> RobotTree:
    """Return a tree that starts where its loops are closed; joints that were cut stay as they
    are.
    """
    home = dict(zip(loops.mechanism.coordinates, loops.home.tolist()))
    return replace(
        tree,
        joints=tuple(
            replace(joint, start=tuple(home[name] for name in done.coordinates[joint.name]))
            if joint.name in done.coordinates
            else joint
            for joint in tree.joints
        ),
    )


def _locked(tree: RobotTree, source: str, names: list[str]) -> RobotTree:
    """Hold joints where the loops are closed: all motions of a joint, or the one a coordinate is
    named after.
    """
    done = describe(
        tree
        if any(j.actuated for j in tree.joints)
        else tree.with_motors(tree.one_motion_joints()),
        source,
    )
    loops = find_start_pose(parse_robot(done.text, source))
    starts = {joint.name: joint.start for joint in _started(tree, done, loops).joints}
    single = {
        name: (joint, k)
        for joint, own in done.coordinates.items()
        for k, name in enumerate(own)
        if len(own) > 1
    }
    held: dict[str, list[float | None]] = {}
    for name in names:
        joint, which = single[name] if name in single else (tree.resolve_joints([name])[0], None)
        own = held.setdefault(joint, [None] * len(starts[joint]))
        for k, start in enumerate(starts[joint]):
            if which in (None, k):
                own[k] = start
    return tree.with_locked_joints(held)


def _closed(tree: RobotTree, source: str) -> tuple[Description, Loops]:
    """Close the loops and return the robot file that starts there; errors say which options answer
    them.
    """
    done = describe(tree, source)
    mechanism = parse_robot(done.text, source)
    rng, tried, singular = np.random.default_rng(0), list[Loops](), None
    for reach in (0.0, *AWAY):
        shift = reach * rng.uniform(-1, 1, len(mechanism.joints))
        near = tried[0].home if tried else [joint.start for joint in mechanism.joints]
        start = tuple(
            replace(joint, start=clamp_to_limits(float(at + s), joint.limits))
            for joint, at, s in zip(mechanism.joints, near, shift)
        )
        try:
            tried.append(analyse_mobility(replace(mechanism, joints=start)))
        except (SingularConfiguration, LoopNotClosed) as error:
            singular = singular or error
            if reach == 0.0 and isinstance(error, LoopNotClosed):
                raise _hinted(error, tree) from None
        except InvalidMechanism as error:
            if spins := _spins(error, done):
                return _closed(
                    _locked(tree, source, spins).with_notes(
                        f"guessed: held, as no motor stops these turns of ball joints: "
                        f"{', '.join(spins)}"
                    ),
                    source,
                )
            if "loose" in error.numbers:
                raise _missing(error, done, source) from None
            if not tried and singular is None:
                raise _hinted(error, tree) from None
        if tried and tried[-1].margin(tried[-1].home, "actuated") > WELL:
            break
    if not tried:
        raise singular or InvalidMechanism(f"{source}: no pose found")
    loops = max(tried, key=lambda loops: loops.margin(loops.home, "actuated"))
    notes = []
    if loops is not tried[0] or singular is not None:
        notes.append(
            "guessed: the start pose of the file is singular, or nearly; another one near it was "
            "taken"
        )
    if loops.locked:
        notes.append(
            f"held, as all they do is turn bodies about themselves: {', '.join(loops.locked)}"
        )
    return describe(
        _started(tree, done, loops).with_notes(*notes), source, redundant=loops.redundant
    ), loops


def _hinted(
    error: InvalidMechanism | LoopNotClosed, tree: RobotTree
) -> InvalidMechanism | LoopNotClosed:
    """Say of loops that are closed in all directions that a pin or a ball may be meant."""
    stiff = [loop.name for loop in tree.loops if CLOSURES[loop.kind].urdf == "6d"]
    hint = (
        f"; {join_names(stiff)}: closed in all six directions (6d, weld); a pin or a ball there is "
        f"3d, connect"
    )
    return type(error)(f"{error}{hint if stiff else ''}", **error.numbers)


def _spins(error: InvalidMechanism, done: Description) -> list[str]:
    """Return the coordinates that no motor determines if each is the only such one of a ball joint.

    CAD programs draw legs with balls at both ends, which leaves them free to turn about themselves.
    """
    found = cast(tuple[str, ...], error.numbers.get("loose", ()))
    of = [
        sum(name in found for name in names)
        for names in done.coordinates.values()
        if len(names) == 3
    ]
    return list(found) if len(found) == sum(of) and max(of, default=2) == 1 else []


def _missing(error: InvalidMechanism, done: Description, source: str) -> InvalidMechanism:
    """Say in the names of the file which joints move without a motor, and what answers it."""
    found = cast(tuple[str, ...], error.numbers["loose"])
    before = {
        name: old
        for old, names in done.coordinates.items()
        for name in names
        if len(names) == 1 or len(set(names) & set(found)) > 1
    }
    loose = list(dict.fromkeys(before.get(name, name) for name in found))
    return InvalidMechanism(
        f"{source}: {error.numbers['degrees_of_freedom']} degrees of freedom but "
        f"{error.numbers['actuated']} motors; "
        f"with these held, {', '.join(loose)} still {'moves' if len(loose) == 1 else 'move'}: name "
        f"such joints among "
        "the `motors`, or hold them with `lock`",
        **{**error.numbers, "loose": tuple(loose)},
    )


def _with_platform(tree: RobotTree, link: str, done: Description, loops: Loops) -> RobotTree:
    """Add task coordinates: a massless body that follows a link, in the directions in which the
    link moves.
    """
    if link not in done.bodies:
        raise InvalidMechanism(
            f"the file has no link '{link}'{nearest(link, done.bodies)}", link=link
        )
    body, at = done.bodies[link]
    pose, moves = loops.twists(body, at)
    size = np.abs(moves).max(initial=0.0)
    rows = [k for k in range(6) if np.abs(moves[k]).max(initial=0.0) > 1e-9 * size]
    if not size > 1e-9:
        raise InvalidMechanism(
            f"the link '{link}' stands still and cannot be the platform", link=link
        )
    free, along = loops.degrees_of_freedom, [k for k in rows if k < 3]
    kind, rows = (
        ("weld", rows)
        if len(rows) == free
        else ("point", along)
        if len(along) == free
        else ("weld", list(range(6)))
    )
    name, motions = f"{link}_platform", tuple(FREE_MOTIONS[k] for k in rows)
    start = tuple(float(pose[k, 3]) if k < 3 else 0.0 for k in rows)
    placed = transform([pose[k, 3] if k in rows else 0.0 for k in range(3)])
    follower = Connection(
        name=f"{name}_task", parent=tree.root, child=name, motions=motions, start=start
    )
    loop = Loop(
        name=f"{name}_loop", kind=kind, frames=((link, IDENTITY), (name, inverse(placed) @ pose))
    )
    return replace(
        tree,
        links=(*tree.links, Link(name=name)),
        joints=(*tree.joints, follower),
        loops=(*tree.loops, loop),
        task=(follower.name,),
    )
