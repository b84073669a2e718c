"""Trajectories: position, velocity and acceleration of named coordinates at any time, in closed form."""

from gough.core.trajectory.base import Trajectory
from gough.core.trajectory.curves import Eased, PointToPoint, Sampled, ease
from gough.core.trajectory.fourier import Fourier, circle, fourier_basis, rest_basis, sines
from gough.core.trajectory.rotation import (
    ORDERS,
    angular_acceleration,
    angular_velocity,
    platform_twist,
    rate_map,
    rate_map_derivative,
)
from gough.core.trajectory.storage import load_trajectory, trajectory_from_dict

__all__ = [
    "ORDERS",
    "Eased",
    "Fourier",
    "PointToPoint",
    "Sampled",
    "Trajectory",
    "angular_acceleration",
    "angular_velocity",
    "circle",
    "ease",
    "fourier_basis",
    "load_trajectory",
    "platform_twist",
    "rate_map",
    "rate_map_derivative",
    "rest_basis",
    "sines",
    "trajectory_from_dict",
]
