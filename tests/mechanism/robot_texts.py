"""Two small robot files for the tests: a serial one, and one with legs and a platform."""

from gough.mechanism import Mechanism, parse_robot

HEAD = """
format = 1
name = "arm"
[units]
length = "m"
angle = "deg"
mass = "kg"
"""
ARM = (
    HEAD
    + """
[[body]]
name = "link"
m = 2
com = [0.1, 0, 0]

[[joint]]
name = "hinge"
type = "revolute"
parent = "base"
child = "link"
actuated = true
terms = ["fv"]
values = { fv = 0.5 }
"""
)
LEGS = (
    HEAD
    + """
[platform]
coordinates = ["x", "y"]
start = { y = 1 }
m = 1

[[leg]]
name = "leg"
instances = [
    { name = "left", base = { xyz = [-1, 0, 0] }, angle = 45, fs = 0.1 },
    { name = "right", base = { polar = [1, 0] }, angle = 135, fs = 0.2 },
]
[[leg.body]]
name = "rod"
[[leg.joint]]
name = "motor"
type = "revolute"
parent = "base"
child = "rod"
actuated = true
start = "$angle"
terms = ["fv", "fs"]
values = { fs = "$fs" }
[[leg.closure]]
name = "tip"
kind = "distance"
a = { body = "rod" }
b = { body = "platform", xyz = [0, 0.5, 0] }
length = 1.5
[tie]
parameters = ["rod.I*", "*.fv"]
"""
)


def read(text: str) -> Mechanism:
    """Read a text as if it were the file `arm.toml`."""
    return parse_robot(text, "arm.toml")
