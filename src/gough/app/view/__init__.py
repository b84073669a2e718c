"""A robot to look at and to move, in the browser."""
