"""Run the steps of a study file; paths are relative to it.

Example:  gough run study.toml
"""

from __future__ import annotations

from typing import Annotated

import typer

from gough.cli.common import Force, Json, end, failed, print_json, progress, say
from gough.study.run import read_study, run_study, step_settings


def run(
    study: Annotated[str, typer.Argument(help="Study file (TOML): section = verb, key = option.")],
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Run a study, one line a step."""
    done = []
    with progress(f"running {study}", quiet=as_json) as update:
        steps = len(read_study(study))
        for k, (verb, options, result) in enumerate(run_study(study, force=force)):
            update((k + 1) / steps)
            done.append({"verb": verb, "result": result.to_dict() | {"settings": step_settings(verb, options)}})
            if not as_json:
                say(f"{verb}: {result.summary().splitlines()[0]}")
            if failed(result):
                break
    if as_json:
        print_json(done)
    end(result)
