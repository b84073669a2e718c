"""Robots that others wrote: URDF, MJCF, SDF and SYMORO, each read into one tree and written as a
robot file.
"""
