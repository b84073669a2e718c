"""Import robots of other programs: close their loops and complete what their files leave open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.display import join_names
from gough.core.errors import (
    GoughError,
    InvalidMechanism,
    LoopNotClosed,
    SingularConfiguration,
    nearest,
)
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
from gough.mechanism import Mechanism, parse_robot
from gough.mechanism.closures import CLOSURES
from gough.mechanism.placement import IDENTITY, inverse, transform

# How far start poses are drawn from a singular one, one after the
# other. [m or rad]
START_DISTANCES = (0.1, 0.2, 0.4, 0.8)
# Margin to a singularity that is enough for a start pose; bundled
# robots start at 0.07 to 0.35.
ENOUGH_START_MARGIN = 2e-3
# velocity of a platform below which it does not move in a direction
MOVES_TOLERANCE = 1e-9


@dataclass(frozen=True, kw_only=True)
class ImportSettings(Settings):
    """Answers to what a file may leave open."""

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
        None,
        "Effort limit of all motors; those of the file by default.",
        unit="N m or N",
        above=0,
    )
    platform: str | None = option(None, "Link that carries the tool: gets task coordinates.")


def import_robot(text: str, source: str, settings: ImportSettings) -> tuple[Description, Loops]:
    """Turn a robot of another program into a robot file with closed loops.

    Args:
        text: Content of the file.
        source: Its path, of which the suffix is the format.
        settings: Answers to what the file leaves open.
    """
    tree = read_tree(text, source, settings.loops)
    motors = _split_names(settings.motors)
    if motors:
        tree = tree.with_motors(motors)
    locked = _split_names(settings.lock)
    if locked:
        tree = lock_joints(tree, source, locked)
    tree = _with_limits(drop_placeholder_limits(tree), settings)
    description, loops = close_tree(tree, source)
    if settings.platform is None:
        return description, loops
    tree = _with_platform(tree, settings.platform, description, loops)
    return close_tree(tree, source)


def _split_names(texts: Sequence[str]) -> list[str]:
    """Return the names in texts such as `a,b,c`."""
    names = []
    for text in texts:
        names += [name.strip() for name in text.split(",")]
    return [name for name in names if name]


def _with_limits(tree: RobotTree, settings: ImportSettings) -> RobotTree:
    """Return the tree with the velocity and effort limits of the settings at all motors."""
    joints = []
    for joint in tree.joints:
        if joint.actuated:
            limits = replace(
                joint.limits,
                velocity=settings.velocity or joint.limits.velocity,
                effort=settings.effort or joint.limits.effort,
            )
            joint = replace(joint, limits=limits)
        joints.append(joint)
    return replace(tree, joints=tuple(joints))


def _with_start(tree: RobotTree, description: Description, loops: Loops) -> RobotTree:
    """Return a tree that starts where its loops are closed; cut joints are kept as they are."""
    reference = dict(zip(loops.mechanism.coordinates, loops.home.tolist()))
    joints = []
    for joint in tree.joints:
        if joint.name in description.coordinates:
            coordinates = description.coordinates[joint.name]
            joint = replace(joint, start=tuple(reference[name] for name in coordinates))
        joints.append(joint)
    return replace(tree, joints=tuple(joints))


def lock_joints(tree: RobotTree, source: str, names: Sequence[str]) -> RobotTree:
    """Lock joints at the start values of the file, or else where its loops close.

    The loops of a file close to its printed digits only. Closing them
    moves every joint a little; joints to be locked must not move if the
    loops close without that.

    Args:
        tree: The robot.
        source: Its file, for messages.
        names: Joints, of which all motions are locked, or single
            coordinates.
    """
    driven = tree
    if not any(joint.actuated for joint in tree.joints):
        driven = tree.with_motors(tree.one_motion_joints())
    description = describe(driven, source)
    locked = _locked_motions(tree, description, names)
    if _closes(_lock_at(driven, locked), source):
        return _lock_at(tree, locked)
    loops = find_start_pose(parse_robot(description.text, source))
    note = (
        f"assumed: {join_names(list(locked))} locked where the loops close; they do not close at "
        "the start values of the file"
    )
    return _lock_at(_with_start(tree, description, loops), locked).with_notes(note)


def _locked_motions(
    tree: RobotTree, description: Description, names: Sequence[str]
) -> dict[str, set[int]]:
    """Return the numbers of the motions to lock, by joint."""
    # joint and number of each coordinate that is one of several of its
    # joint
    coordinates = {}
    for joint_name, joint_coordinates in description.coordinates.items():
        if len(joint_coordinates) > 1:
            for k, name in enumerate(joint_coordinates):
                coordinates[name] = (joint_name, k)
    n_motions = {joint.name: len(joint.motions) for joint in tree.joints}
    locked: dict[str, set[int]] = {}
    for name in names:
        if name in coordinates:
            joint_name, k = coordinates[name]
            locked.setdefault(joint_name, set()).add(k)
        else:
            joint_name = tree.resolve_joints([name])[0]
            locked[joint_name] = set(range(n_motions[joint_name]))
    return locked


def _lock_at(tree: RobotTree, locked: Mapping[str, set[int]]) -> RobotTree:
    """Return the tree with motions locked at its start values."""
    positions: dict[str, list[float | None]] = {}
    for joint in tree.joints:
        if joint.name in locked:
            starts = [*joint.start, *[0.0] * (len(joint.motions) - len(joint.start))]
            positions[joint.name] = [None] * len(starts)
            for k in locked[joint.name]:
                positions[joint.name][k] = starts[k]
    return tree.with_locked_joints(positions)


def _closes(tree: RobotTree, source: str) -> bool:
    """Tell whether the loops of a tree can be closed."""
    try:
        find_start_pose(parse_robot(describe(tree, source).text, source))
    except GoughError:
        return False
    return True


def close_tree(tree: RobotTree, source: str) -> tuple[Description, Loops]:
    """Close the loops and return the robot file that starts there.

    If the start pose of the file is singular, others near it are tried.
    Position limits beyond which alone the loops close are dropped,
    which is noted.

    Raises:
        InvalidMechanism: The message says which options of the import
            may help.
        LoopNotClosed: No pose was found in which the loops are closed.
    """
    try:
        return _close_within_limits(tree, source)
    except (InvalidMechanism, LoopNotClosed) as error:
        limited = [joint for joint in tree.joints if joint.limits.position is not None]
        may_be_limits = isinstance(error, LoopNotClosed) or "position" in error.numbers
        if not limited or not tree.loops or not may_be_limits:
            raise
        try:
            description, loops = _close_within_limits(_without_limits(tree, limited), source)
        except GoughError:
            raise error from None
    started = {joint.name: joint for joint in _with_start(tree, description, loops).joints}
    beyond = []
    for joint in limited:
        start = started[joint.name].start[0]
        if clamp_to_limits(start, joint.limits) != start:
            beyond.append(joint)
    names = join_names([joint.name for joint in beyond])
    note = f"ignored: position limits of {names}; the loops close only beyond them"
    tree = replace(tree, joints=tuple(started.values()))
    return _close_within_limits(_without_limits(tree, beyond).with_notes(note), source)


def _without_limits(tree: RobotTree, joints: Sequence[Connection]) -> RobotTree:
    """Return the tree without the position limits of some joints."""
    names = {joint.name for joint in joints}
    freed = []
    for joint in tree.joints:
        if joint.name in names:
            joint = replace(joint, limits=replace(joint.limits, position=None))
        freed.append(joint)
    return replace(tree, joints=tuple(freed))


def _close_within_limits(tree: RobotTree, source: str) -> tuple[Description, Loops]:
    """Close the loops within the position limits of the file; see `close_tree`."""
    description = describe(tree, source)
    mechanism = parse_robot(description.text, source)
    rng = np.random.default_rng(0)
    candidates: list[Loops] = []
    failure: SingularConfiguration | LoopNotClosed | None = None
    for distance in (0.0, *START_DISTANCES):
        shift = distance * rng.uniform(-1, 1, len(mechanism.joints))
        center = np.array([joint.start for joint in mechanism.joints])
        if candidates:
            center = candidates[0].home
        try:
            candidates.append(analyse_mobility(_starting_at(mechanism, center + shift)))
        except (SingularConfiguration, LoopNotClosed) as error:
            failure = failure or error
            if distance == 0.0 and isinstance(error, LoopNotClosed):
                raise _with_closure_hint(error, tree) from None
        except InvalidMechanism as error:
            spins = _undriven_spins(error, description)
            if spins:
                note = (
                    f"assumed: locked, as no motor moves these rotations of ball joints: "
                    f"{', '.join(spins)}"
                )
                return close_tree(lock_joints(tree, source, spins).with_notes(note), source)
            if "loose" in error.numbers:
                raise _missing_motors(error, description, source) from None
            if not candidates and failure is None:
                raise _with_closure_hint(error, tree) from None
        if candidates and _start_margin(candidates[-1]) > ENOUGH_START_MARGIN:
            break
    if not candidates:
        raise failure or InvalidMechanism(f"{source}: no pose found")
    loops = max(candidates, key=_start_margin)
    notes = []
    if loops is not candidates[0] or failure is not None:
        notes.append(
            "assumed: the start pose of the file is singular, or nearly; another one near it was "
            "taken"
        )
    if loops.locked:
        notes.append(
            f"locked: {', '.join(loops.locked)} (rotation of a body about its own axis; has no "
            "effect on the dynamics)"
        )
    tree = _with_start(tree, description, loops).with_notes(*notes)
    return describe(tree, source, redundant=loops.redundant), loops


def _starting_at(mechanism: Mechanism, start: FloatArray) -> Mechanism:
    """Return a mechanism that starts at a pose, inside the limits of its joints."""
    joints = []
    for joint, coordinate in zip(mechanism.joints, start):
        clamped = clamp_to_limits(float(coordinate), joint.limits)
        joints.append(replace(joint, start=clamped))
    return replace(mechanism, joints=tuple(joints))


def _start_margin(loops: Loops) -> float:
    """Return the distance of the start pose from a singularity."""
    return loops.margin(loops.home, "actuated")


def _with_closure_hint(
    error: InvalidMechanism | LoopNotClosed, tree: RobotTree
) -> InvalidMechanism | LoopNotClosed:
    """Add to an error that loops closed in all directions may be meant as a pin or a ball."""
    welded = [loop.name for loop in tree.loops if CLOSURES[loop.kind].urdf == "6d"]
    hint = ""
    if welded:
        hint = (
            f"; {join_names(welded)}: closed in all six directions (6d, weld); a pin or a ball "
            f"there is 3d, connect"
        )
    return type(error)(f"{error}{hint}", **error.numbers)


def _undriven_spins(error: InvalidMechanism, description: Description) -> list[str]:
    """Return the coordinates without a motor if each is the only such one of a ball joint.

    CAD programs draw legs with balls at both ends, which can rotate
    about their own axis.
    """
    undriven = cast(tuple[str, ...], error.numbers.get("loose", ()))
    counts = []
    for coordinates in description.coordinates.values():
        if len(coordinates) == 3:
            counts.append(sum(name in undriven for name in coordinates))
    only_balls = len(undriven) == sum(counts)
    if only_balls and max(counts, default=0) == 1:
        return list(undriven)
    return []


def _missing_motors(
    error: InvalidMechanism, description: Description, source: str
) -> InvalidMechanism:
    """Return an error that names the joints of the file that move without a motor."""
    undriven = cast(tuple[str, ...], error.numbers["loose"])
    names = []
    for coordinate in undriven:
        names.append(_name_in_file(coordinate, undriven, description))
    names = list(dict.fromkeys(names))
    verb = "moves" if len(names) == 1 else "move"
    return InvalidMechanism(
        f"{source}: {error.numbers['degrees_of_freedom']} degrees of freedom but "
        f"{error.numbers['actuated']} motors; with these held, {', '.join(names)} still {verb}: "
        f"name such joints among the `motors`, or hold them with `lock`",
        **{**error.numbers, "loose": tuple(names)},
    )


def _name_in_file(coordinate: str, undriven: Sequence[str], description: Description) -> str:
    """Return the joint of a coordinate; the coordinate if the joint's others are driven."""
    for joint, coordinates in description.coordinates.items():
        if coordinate in coordinates:
            n_undriven = len(set(coordinates) & set(undriven))
            if len(coordinates) == 1 or n_undriven > 1:
                return joint
    return coordinate


def _with_platform(tree: RobotTree, link: str, description: Description, loops: Loops) -> RobotTree:
    """Add task coordinates: a massless body that follows a link in the directions it moves in."""
    if link not in description.bodies:
        raise InvalidMechanism(
            f"the file has no link '{link}'{nearest(link, description.bodies)}",
            link=link,
        )
    body, placement = description.bodies[link]
    pose, twists = loops.twists(body, placement)
    speed = np.abs(twists).max(axis=1, initial=0.0)
    fastest = speed.max()
    if not fastest > MOVES_TOLERANCE:
        raise InvalidMechanism(
            f"the link '{link}' does not move and cannot be the platform",
            link=link,
        )
    moving = [k for k in range(6) if speed[k] > MOVES_TOLERANCE * fastest]
    kind, directions = _platform_closure(moving, loops.degrees_of_freedom)
    position = [float(coordinate) for coordinate in pose[:3, 3]]
    start = tuple([*position, 0.0, 0.0, 0.0][k] for k in directions)
    translation = np.where(np.isin(range(3), directions), position, 0.0)
    follower_pose = transform(translation.tolist())
    name = f"{link}_platform"
    follower = Connection(
        name=f"{name}_task",
        parent=tree.root,
        child=name,
        motions=tuple(FREE_MOTIONS[k] for k in directions),
        start=start,
    )
    loop = Loop(
        name=f"{name}_loop",
        kind=kind,
        frames=((link, IDENTITY), (name, inverse(follower_pose) @ pose)),
    )
    return replace(
        tree,
        links=(*tree.links, Link(name=name)),
        joints=(*tree.joints, follower),
        loops=(*tree.loops, loop),
        task=(follower.name,),
    )


def _platform_closure(moving: list[int], degrees_of_freedom: int) -> tuple[str, list[int]]:
    """Return the kind of closure and the directions of task coordinates of a platform.

    Args:
        moving: Directions in which the platform moves: three
            translations, three rotations.
        degrees_of_freedom: Of the robot.
    """
    translations = [k for k in moving if k < 3]
    if len(moving) == degrees_of_freedom:
        return "weld", moving
    if len(translations) == degrees_of_freedom:
        return "point", translations
    return "weld", list(range(6))
