"""Boxes that hold every parameter vector the data allow, from a largest error instead of a
distribution.
"""
