"""Boxes that hold every parameter vector the data allow, given a bound of every error."""
