"""Coulomb friction over a time step, treated implicitly.

The sign of the velocity u of a joint is linear inside its dead band b,
so that friction is a stiff damper there: its rate is r = F / (b m),
with the friction F and the mass m that the joint moves. An explicit
integrator needs steps of about 1 / r. Here the sign of each joint is
held over a step h at its mean, which depends on the velocity u1 at the
end,

    s = f mean(sign, u from u0 to u1) + (1 - f) sign(u1),    f = (1 + z/3) / (1 + z/2 + z^2/6).

The first mean is that of a velocity that changes uniformly, exact where
a joint passes through its band. The second one lets a joint stop. With
z = h r one joint inside its band decays by 1 / (1 + z + z^2/2 + z^3/6),
an approximation of exp(-z) that is of third order and never negative: a
joint at rest does not chatter, whatever the step. From outside the
band, at v0 = |u0|, z is multiplied by 4 v0 b / (v0 + b)^2: friction
that can stop a joint within the step does, and friction that cannot
lets it pass.

With the mass matrix M of the rows, E the velocities of joints by those
of the rows and e the part of their accelerations without the rows', the
mean acceleration a solves

    M a = p - E^T F s(u1),    u1 = u0 + h (E a + e).

s increases with u1, so that there is one solution. Newton's method
would jump back and forth over narrow bands; a joint that changes
direction in an iteration is therefore linearised at zero velocity.
"""

from __future__ import annotations

from dataclasses import dataclass

import casadi as ca

from gough.engine.elimination import cholesky_solve

# Iterations for the mean signs. For a hexapod whose 18 joints all rest
# or reverse under random efforts three leave less than 0.01 band at z =
# 2, and at z = 7 in nine of ten cases. A rest is not lost: signs are
# limited, and the next step starts from the velocities reached.
SIGN_ITERATIONS = 3
NARROWEST_BAND = 1e-9  # narrower ones are widened to this [m/s or rad/s]


@dataclass(frozen=True)
class CoulombJoints:
    """Joints with Coulomb friction at the start of a step, as expressions."""

    # E, velocities of these joints by those of the rows, (f, m)
    closure_map: ca.SX
    # e, their accelerations if those of the rows are zero, (f,)
    bias_acceleration: ca.SX
    velocity: ca.SX  # u0, (f,)
    band: ca.SX  # b, (f,)
    # F, derivatives of efforts by the signs of velocities, (f,)
    friction: ca.SX
    sign: ca.SX  # of u0, linear inside the band, (f,)

    def held_sign(self, mass: ca.SX, force: ca.SX, h: ca.SX) -> ca.SX:
        """Return the mean sign of each joint over a step, (f,).

        Args:
            mass: Mass matrix of the rows, (m, m).
            force: M times the acceleration of the rows with the signs
                of u0, (m,).
            h: Length of the step.
        """
        E = self.closure_map
        free_velocity = self.velocity + h * self.bias_acceleration
        p = force + E.T @ (self.friction * self.sign)
        weight = self._weight(mass, h)
        velocity = free_velocity + h * (E @ cholesky_solve(mass, force))
        point = _stopped(self.velocity, velocity)
        sign = self.sign
        for _ in range(SIGN_ITERATIONS):
            mean, slope = self._mean_sign(point, weight)
            constant = mean + slope * (free_velocity - point)
            damping = h * self.friction * slope
            matrix = mass + _weighted_square(E, damping)
            acceleration = cholesky_solve(matrix, p - E.T @ (self.friction * constant))
            velocity = free_velocity + h * (E @ acceleration)
            sign = _limited(mean + slope * (velocity - point))
            point = _stopped(point, velocity)
        return sign

    def _weight(self, mass: ca.SX, h: ca.SX) -> ca.SX:
        """Return f of the module docstring for each joint, (f,).

        The masses are those of the diagonal of M: they decide how means
        are weighted, not whether the step is stable.
        """
        mobility = (self.closure_map**2) @ (1 / ca.diag(mass))
        band = ca.fmax(self.band, NARROWEST_BAND)
        speed = ca.fmax(ca.fabs(self.velocity), band)
        z = h * self.friction * mobility * 4 * speed / (speed + band) ** 2
        return (1 + z / 3) / (1 + z / 2 + z**2 / 6)

    def _mean_sign(self, end: ca.SX, weight: ca.SX) -> tuple[ca.SX, ca.SX]:
        """Return the mean sign s of each joint and its derivative by the velocity at the end.

        With P(u) the integral of the sign, the mean over a uniform
        change is (P(u1) - P(u0)) / (u1 - u0).
        """
        band = ca.fmax(self.band, NARROWEST_BAND)
        rate = 1 / band
        start_sign = _limited(self.velocity * rate)
        end_sign = _limited(end * rate)
        change = end - self.velocity
        smallest = (1e-6 * band) ** 2  # for changes below that the sign in the middle is the mean
        inverse = 1 / (change**2 + smallest)
        integral = end_sign * (end - band / 2 * end_sign)
        integral -= start_sign * (self.velocity - band / 2 * start_sign)
        middle_sign = _limited((self.velocity + end) / 2 * rate)
        end_slope = (ca.fabs(end) < band) * rate
        uniform = (change * integral + smallest * middle_sign) * inverse
        uniform_slope = (change * (end_sign - uniform) + smallest / 2 * end_slope) * inverse
        mean = end_sign + weight * (uniform - end_sign)
        return mean, end_slope + weight * (uniform_slope - end_slope)


def _limited(sign: ca.SX) -> ca.SX:
    """Return numbers limited to -1 and 1."""
    return ca.fmax(ca.fmin(sign, 1.0), -1.0)


def _stopped(before: ca.SX, after: ca.SX) -> ca.SX:
    """Return the velocities after, zero where their direction is no longer that before."""
    return after * (before * after >= 0)


def _weighted_square(matrix: ca.SX, weights: ca.SX) -> ca.SX:
    """Return E^T diag(w) E for a matrix E with few rows, symmetric to the last digit."""
    weighted = ca.repmat(weights, 1, matrix.shape[1]) * matrix
    upper = ca.triu(matrix.T @ weighted)
    return ca.triu2symm(upper)
