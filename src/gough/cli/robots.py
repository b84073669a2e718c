"""List the bundled robots.

Example:  gough robots
"""

from __future__ import annotations

from gough.cli.common import Json, print_json, table
from gough.mechanism import bundled_robots


def robots(as_json: Json = False) -> None:
    """Print names and titles."""
    found = bundled_robots()
    if as_json:
        print_json([{"name": name, "title": title} for name, title in found])
        return
    table("", ["robot", "what it is"], [[name, title] for name, title in found])
