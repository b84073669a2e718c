"""The rotations of a Stewart platform with a load, as S20 writes them for its filter."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gough.core.arrays import FloatArray, check_finite, check_shape, frozen
from gough.core.errors import InvalidInput, NotConverged
from gough.core.names import PAYLOAD, Parameter

SOUGHT = tuple(Parameter.of(PAYLOAD, kind) for kind in ("z", "Ixx", "Iyy", "Izz"))
STATES = ("rx.velocity", "ry.velocity", "rz.velocity", *SOUGHT)
STATE_UNITS = ("rad/s", "rad/s", "rad/s", "m", "kg m2", "kg m2", "kg m2")
CONTROLS = ("force.x", "force.y", "moment.x", "moment.y", "moment.z", "rx", "ry")


@dataclass(frozen=True, kw_only=True, eq=False)
class StewartLoad:
    """Angular velocities and load parameters of S20 (24), driven by the legs' forces and moments; a `Predictor`.

    S20 (25) divided by m = m_l + m_p, with the load's gravity moment; small rotations, no centrifugal terms:

        N_x = moment.x + m_l z (fy / m + g rx),   wd_x = N_x / (Ipx + Ixx + m_l (1 - m_l / m) z^2)
        N_y = moment.y + m_l z (g ry - fx / m),   wd_y = N_y / (Ipy + Iyy + m_l (1 - m_l / m) z^2)
        N_z = moment.z,                           wd_z = N_z / (Ipz + Izz)

    The state is the three angular velocities [rad/s], the height z of the load's centre of mass above the control
    point [m] and its inertias Ixx, Iyy, Izz about that centre [kg m2]; the control is `CONTROLS` [N, N m, rad], moments
    about the control point. Departures: (26) swaps Ixx and Iyy, (34)-(35) carry misprints, and the gravity moment,
    which needs the unknown z, is missing in (10); derivatives here are those of the equations above. (22) drops the
    moment about z of a tilted load's inertia force, -m_l z (ry fy + rx fx) / m in N_z, which is of the size of
    Izz wd_z; `yaw_coupling` keeps it.

    Args:
        load_mass: m_l, known. [kg]
        platform_mass: m_p. [kg]
        platform_inertia: Ipx, Ipy, Ipz about the control point, (3,). [kg m2]
        gravity: g. [m/s2]
        yaw_coupling: Keep the moment about z that (22) drops.
    """

    load_mass: float
    platform_mass: float
    platform_inertia: FloatArray
    gravity: float = 9.81
    yaw_coupling: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "platform_inertia", frozen(self.platform_inertia))
        check_shape(self.platform_inertia, (3,), "inertia of the platform")
        check_finite(self.platform_inertia, "inertia of the platform")
        if not (self.load_mass > 0 and self.platform_mass > 0 and (self.platform_inertia > 0).all()):
            raise InvalidInput(f"masses are {self.load_mass} kg (load) and {self.platform_mass} kg (platform), "
                               f"inertias {self.platform_inertia.tolist()} kg m2; expected all positive")

    def predict(self, state: FloatArray, control: FloatArray, dt: float) -> tuple[FloatArray, FloatArray]:
        """Return the state one Euler step of `dt` [s] later, S20 (28), and its derivative by the state, (7, 7).

        Raises:
            NotConverged: An inertia went so far below zero that the platform with load has none left.
        """
        z, Ixx, Iyy, Izz = state[3:].tolist()
        fx, fy, Mx, My, Mz, rx, ry = control.tolist()
        Ipx, Ipy, Ipz = self.platform_inertia.tolist()
        ml, m, g = self.load_mass, self.load_mass + self.platform_mass, self.gravity
        arm = ml * (1 - ml / m) * z * z  # load and platform about their common centre of mass
        Dx, Dy, Dz = Ipx + Ixx + arm, Ipy + Iyy + arm, Ipz + Izz
        if not (Dx > 0 and Dy > 0 and Dz > 0):
            raise NotConverged(f"the filter's inertias are {Ixx:.3g}, {Iyy:.3g}, {Izz:.3g} kg m2, below minus those of "
                               "the platform; start nearer or with a smaller covariance")
        # d N / dz
        Sx, Sy, Sz = ml * (fy / m + g * rx), ml * (g * ry - fx / m), 0.0
        if self.yaw_coupling:
            Sz = -ml * (ry * fy + rx * fx) / m
        Nx, Ny, Nz = Mx + Sx * z, My + Sy * z, Mz + Sz * z
        slope = 2 * ml * (1 - ml / m) * z  # d arm / dz
        ahead = state.copy()
        ahead[:3] += np.array([Nx / Dx, Ny / Dy, Nz / Dz]) * dt
        jacobian = np.eye(7)
        jacobian[:3, 3] = np.array([(Sx - Nx * slope / Dx) / Dx, (Sy - Ny * slope / Dy) / Dy, Sz / Dz]) * dt
        jacobian[0, 4], jacobian[1, 5], jacobian[2, 6] = -dt * Nx / Dx**2, -dt * Ny / Dy**2, -dt * Nz / Dz**2
        return ahead, jacobian

    def measure(self, state: FloatArray, control: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the angular velocities, S20 (29), and H = [E_3 0], (3, 7)."""
        return state[:3], np.eye(3, 7)

    def moments(self, state: FloatArray, controls: FloatArray) -> FloatArray:
        """Return N_x, N_y, N_z that accelerate the rotations, (t, 3), for controls (t, 7). [N m]"""
        fx, fy, Mx, My, Mz, rx, ry = np.asarray(controls, dtype=float).T
        lever, m = self.load_mass * state[3], self.load_mass + self.platform_mass
        twist = lever * (ry * fy + rx * fx) / m if self.yaw_coupling else 0.0
        return np.stack([Mx + lever * (fy / m + self.gravity * rx), My + lever * (self.gravity * ry - fx / m),
                         Mz - twist], axis=1)

    def inertias(self, state: FloatArray) -> FloatArray:
        """Return what the moments accelerate: the denominators of (25) divided by m, (3,). [kg m2]"""
        arm = self.load_mass * (1 - self.load_mass / (self.load_mass + self.platform_mass)) * state[3] ** 2
        return np.asarray(self.platform_inertia + state[4:] + np.array([arm, arm, 0.0]))
