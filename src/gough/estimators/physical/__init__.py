"""Parameters that some robot could have: positive masses, possible inertias, friction that
brakes.
"""
