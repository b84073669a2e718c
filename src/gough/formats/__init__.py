"""Robots of other programs: URDF, MJCF, SDF and SYMORO, read and written as a robot file."""
