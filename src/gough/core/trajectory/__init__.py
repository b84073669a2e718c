"""Trajectories: position, velocity and acceleration of named coordinates at any time, in closed form."""

from gough.core.trajectory.base import Trajectory
from gough.core.trajectory.curves import Eased, Fourier, Sampled, ease, fourier_basis, rest_basis
from gough.core.trajectory.rotation import platform_twist, rate_map, rate_map_derivative
from gough.core.trajectory.storage import load_trajectory, trajectory_from_dict

__all__ = ["Eased", "Fourier", "Sampled", "Trajectory", "ease", "fourier_basis", "load_trajectory", "platform_twist",
           "rate_map", "rate_map_derivative", "rest_basis", "trajectory_from_dict"]
