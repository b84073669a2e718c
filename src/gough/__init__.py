"""Gough: the dynamic model of a parallel robot from what its controller records."""
