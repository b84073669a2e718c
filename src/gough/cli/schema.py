"""Write the JSON Schema of robot files, by which editors complete and check them.

Example:  gough schema
"""

from __future__ import annotations

from gough.cli.common import print_json
from gough.mechanism.schema import json_schema


def schema() -> None:
    """Print the schema."""
    print_json(json_schema())
