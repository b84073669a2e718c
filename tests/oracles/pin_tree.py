"""A Pinocchio model of a mechanism's tree, built without Gough's own transforms."""

from __future__ import annotations

import numpy as np
import pinocchio as pin

from gough.core.parameters import INERTIAL
from gough.mechanism.placement import Placement
from gough.mechanism.types import Joint, Mechanism


def placed(placement: Placement) -> pin.SE3:
    """Compose a placement from elementary Pinocchio transforms."""
    result = pin.SE3.Identity()
    for step, value in placement.steps:
        axis = step[1].lower()
        if step[0] == "R":
            result = result * pin.SE3(pin.utils.rotate(axis, value), np.zeros(3))
        else:
            shift = np.zeros(3)
            shift["xyz".index(axis)] = value
            result = result * pin.SE3(np.eye(3), shift)
    return result


def _depth_first(mechanism: Mechanism) -> list[Joint]:
    """Return the joints branch by branch: Pinocchio's mass matrix takes the joints of a subtree as
    contiguous.
    """
    ordered: list[Joint] = []
    waiting = [joint for joint in reversed(mechanism.joints) if joint.parent == "base"]
    while waiting:
        ordered.append(waiting.pop())
        waiting += [
            joint for joint in reversed(mechanism.joints) if joint.parent == ordered[-1].child
        ]
    return ordered


def tree(mechanism: Mechanism) -> tuple[pin.Model, dict[str, int], list[int]]:
    """Return the model, the joint id of each body, and the velocity index of each coordinate."""
    model = pin.Model()
    model.gravity.linear = np.array(mechanism.gravity)
    ids = {"base": 0}
    kinds = {("revolute", a): getattr(pin, f"JointModelR{a.upper()}") for a in "xyz"} | {
        ("prismatic", a): getattr(pin, f"JointModelP{a.upper()}") for a in "xyz"
    }
    for joint in _depth_first(mechanism):
        number = model.addJoint(
            ids[joint.parent], kinds[joint.kind, joint.axis](), placed(joint.placement), joint.name
        )
        values = mechanism.body(joint.child).values
        vector = np.array([values.get(p, 0.0) for p in INERTIAL])
        if vector[0] > 0:
            model.appendBodyToJoint(
                number, pin.Inertia.FromDynamicParameters(vector), pin.SE3.Identity()
            )
        ids[joint.child] = number
    order = [model.joints[ids[joint.child]].idx_v for joint in mechanism.joints]
    return model, ids, order


def constrained_acceleration(
    mechanism: Mechanism, q: np.ndarray, qd: np.ndarray, effort: np.ndarray
) -> np.ndarray:
    """Return all accelerations of the closed chain under joint efforts (n,), by a KKT system of
    Pinocchio's quantities.

    Point, revolute, weld, distance and parallel closures and couplings; drift terms from classical
    accelerations. Rotor inertias are added to the mass matrix; friction must already be in
    `effort`.
    """
    model, ids, order = tree(mechanism)
    data = model.createData()
    n = len(order)
    position, velocity = np.zeros(n), np.zeros(n)
    position[order], velocity[order] = q, qd
    mass = pin.crba(model, data, position).copy()
    mass = np.triu(mass) + np.triu(mass, 1).T
    for joint, i in zip(mechanism.joints, order):
        mass[i, i] += joint.values.get("ia", 0.0)
    bias = pin.nonLinearEffects(model, data, position, velocity).copy()
    _, K, gamma = closure_rows(mechanism, model, data, ids, order, position, velocity)
    forces = np.zeros(n)
    forces[order] = effort
    kkt = np.block([[mass, K.T], [K, np.zeros((len(K), len(K)))]])
    solution = np.linalg.lstsq(kkt, np.concatenate([forces - bias, -gamma]), rcond=1e-13)[0]
    return solution[:n][order]


def closure_rows(
    mechanism: Mechanism,
    model: pin.Model,
    data: pin.Data,
    ids: dict[str, int],
    order: list[int],
    position: np.ndarray,
    velocity: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return how far closures are open (c,), K = d of that / dq (c, n) and (dK/dt) v (c,), in
    Pinocchio's order.
    """
    n = len(order)
    pin.forwardKinematics(model, data, position, velocity, np.zeros(n))
    pin.computeJointJacobians(model, data, position)
    opened, rows, drift = [], [], []
    for closure in mechanism.closures:
        if closure.kind == "coupling":
            row = np.zeros(n)
            for name, coefficient in closure.coefficients.items():
                row[order[mechanism.coordinates.index(name)]] = coefficient
            opened.append(np.array([row @ position + closure.constant]))
            rows.append(row[None])
            drift.append(np.zeros(1))
            continue
        ends = [
            _end(model, data, ids[frame.body], placed(frame.placement))
            for frame in (closure.a, closure.b)
        ]
        a, b = ends
        J = b["J"] - a["J"]
        gamma = b["acc"] - a["acc"]
        if closure.kind in ("point", "revolute", "weld"):
            opened.append(b["p"] - a["p"])
            rows.append(J[:3])
            drift.append(gamma[:3])
        if closure.kind == "distance":
            d = b["p"] - a["p"]
            dv = J[:3] @ velocity
            opened.append(np.array([(d @ d - closure.values["length"] ** 2) / 2]))
            rows.append((d @ J[:3])[None])
            drift.append(np.array([dv @ dv + d @ gamma[:3]]))
        if closure.kind == "weld":
            opened.append(pin.log3(b["R"] @ a["R"].T))
            rows.append(J[3:])
            drift.append(gamma[3:])
        if closure.kind in ("revolute", "parallel"):
            z, wz = a["R"][:, 2], a["w"]
            for k in (0, 1):  # z_a . e_b = 0
                e, we = b["R"][:, k], b["w"]
                row = np.cross(z, e) @ a["J"][3:] + np.cross(e, z) @ b["J"][3:]
                zd, ed = np.cross(wz, z), np.cross(we, e)
                zdd = np.cross(a["acc"][3:], z) + np.cross(wz, zd)
                edd = np.cross(b["acc"][3:], e) + np.cross(we, ed)
                opened.append(np.array([z @ e]))
                rows.append(row[None])
                drift.append(np.array([zdd @ e + 2 * zd @ ed + z @ edd]))
    return (
        (np.concatenate(opened), np.vstack(rows), np.concatenate(drift))
        if rows
        else (np.zeros(0), np.zeros((0, n)), np.zeros(0))
    )


def _end(model: pin.Model, data: pin.Data, joint: int, offset: pin.SE3) -> dict[str, np.ndarray]:
    pose = data.oMi[joint] * offset
    if joint == 0:
        return {
            "p": pose.translation,
            "R": pose.rotation,
            "J": np.zeros((6, model.nv)),
            "w": np.zeros(3),
            "acc": np.zeros(6),
        }
    J = pin.getJointJacobian(model, data, joint, pin.ReferenceFrame.LOCAL_WORLD_ALIGNED)
    r = pose.translation - data.oMi[joint].translation
    v = pin.getVelocity(model, data, joint, pin.ReferenceFrame.LOCAL_WORLD_ALIGNED)
    a = pin.getClassicalAcceleration(model, data, joint, pin.ReferenceFrame.LOCAL_WORLD_ALIGNED)
    skew = pin.skew(r)
    return {
        "p": pose.translation,
        "R": pose.rotation,
        "J": np.vstack([J[:3] - skew @ J[3:], J[3:]]),
        "w": v.angular,
        "acc": np.concatenate(
            [
                a.linear + np.cross(a.angular, r) + np.cross(v.angular, np.cross(v.angular, r)),
                a.angular,
            ]
        ),
    }


def term_value(term: str, q: float, qd: float, qdd: float) -> float:
    """What a joint term is for a unit coefficient, written again."""
    return {"ia": qdd, "fv": qd, "fs": float(np.sign(qd)), "off": 1.0, "k": q}[term]
