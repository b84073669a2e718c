"""Commands that are no verbs. Each imports what it needs when it is called."""

from __future__ import annotations

import csv
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from time import monotonic
from typing import Annotated, Any

import typer

from gough.app.cli.display import FAILED, Force, Json, failed, print_json, progress, say, table

MOST_ROWS = 30  # of the table a demo prints; the report has all


def robots(as_json: Json = False) -> None:
    """List the bundled robots.

    Example:  gough robots
    """
    from gough.mechanism import bundled_robots

    found = bundled_robots()
    if as_json:
        print_json([{"name": name, "title": title} for name, title in found])
    else:
        table(["robot", "what it is"], [[name, title] for name, title in found])


def schema() -> None:
    """Write the JSON Schema of robot files, by which editors complete and check them.

    Example:  gough schema
    """
    from gough.mechanism.schema import json_schema

    print_json(json_schema())


def view(
    robot: Annotated[str, typer.Argument(help="Name of a bundled robot or path of a robot file.")],
    log: Annotated[
        list[str] | None, typer.Option(help="A log to play; may be given again.")
    ] = None,
    result: Annotated[
        str | None,
        typer.Option(
            help="Folder that `gough identify -o` wrote: its logs, or its prediction of `--log`."
        ),
    ] = None,
    description: Annotated[
        str | None, typer.Option(help="TOML that says which column of a log is which.")
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; the next free one if it is taken.")] = 8080,
) -> None:
    """Show a robot in the browser, move it, and play a log with measured and predicted efforts
    beside it.

    Example:  gough view five_bar --log run.csv --result result
    """
    from gough.app.studies.data import read_logs
    from gough.app.view.posture import Posture
    from gough.app.view.window import Window, playback
    from gough.identification.result import load_identification
    from gough.mechanism import load_robot

    posture = Posture(load_robot(robot))
    found = None if result is None else load_identification(result)
    fits = [] if found is None else list(found.fits)
    if log and posture.model is not None:
        recordings = read_logs(log, description, posture.model)
        fits = [playback(posture.model, recording, found) for recording in recordings]
    window = Window(posture, fits, host=host, port=port)
    if posture.problem:
        say(posture.problem)
    say(f"'{robot}' is at {window.address} (Ctrl-C to end)")
    window.run()


def run(
    study: Annotated[str, typer.Argument(help="Study file (TOML): section = verb, key = option.")],
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Run the steps of a study file; paths are relative to it.

    Example:  gough run study.toml
    """
    from gough.app.studies.run import run_study, step_settings

    done = []
    with progress(f"running {study}", quiet=as_json) as update:
        for verb, options, result in run_study(study, force=force, progress=update):
            done.append(
                {
                    "verb": verb,
                    "result": result.to_dict() | {"settings": step_settings(verb, options)},
                }
            )
            if not as_json:
                say(f"{verb}: {result.summary().splitlines()[0]}")
            if failed(result):
                break
    if as_json:
        print_json(done)
    if failed(result):
        raise typer.Exit(FAILED)


def demo(
    robot: Annotated[
        str, typer.Argument(help="palida, orthoglide, h4, stewart, five_bar or fleet.")
    ] = "palida",
    output: Annotated[
        str, typer.Option("-o", "--output", help="Folder for everything it makes.")
    ] = "gough-demo",
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Do the whole job on a bundled robot: design, experiments, identification, bounds, report,
    controller code.

    Example:  gough demo five_bar -o demo
    """
    from gough.app.studies.run import run_study
    from gough.app.studies.trials import truth_table
    from gough.core.errors import InvalidInput, nearest
    from gough.core.files import require_free_folder, write_text

    studies = {
        file.name.removesuffix(".toml"): file
        for file in (resources.files("gough") / "demos").iterdir()
    }
    if robot not in studies:
        raise InvalidInput(f"there is no demo of '{robot}'{nearest(robot, studies)}")
    text = studies[robot].read_text(encoding="utf-8")
    if find_spec("pinocchio") is None:
        text = text.replace('"pinocchio"', '"gough"')
    folder = require_free_folder(output, force)
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / "study.toml", text)
    tell = (lambda line: None) if as_json else say
    tell(f"{robot}: {text.splitlines()[0].lstrip('# ')}")
    source = "the independent plant (Pinocchio)" if '"pinocchio"' in text else "Gough's own plant"
    tell(
        f"recordings come from "
        f"{source if 'simulate]' in text else 'the inverse model along the motion'}"
    )
    started = monotonic()
    done: dict[str, Any] = {}
    rows = []
    with progress("working", quiet=as_json) as update:
        for verb, options, result in run_study(folder / "study.toml", force=True, progress=update):
            done[verb] = result
            if verb == "identify":
                rows = truth_table(robot, result.estimate, bool(options.get("tie_legs")))
            tell(f"  {monotonic() - started:5.1f} s  {verb}: {result.summary().splitlines()[0]}")
    seconds = monotonic() - started
    identified, load, fleet = (done.get(verb) for verb in ("identify", "payload", "fleet"))
    if as_json:
        print_json(
            {
                "robot": robot,
                "seconds": seconds,
                "folder": output,
                "parameters": [
                    dict(zip(("name", "true", "value", "std", "within"), row)) for row in rows
                ],
                "level": identified and identified.level,
                "headline": identified and identified.headline,
                "notices": identified and [n.to_dict() for n in identified.notices],
                "payload": load and load.to_dict(),
                "fleet": fleet and fleet.to_dict(),
            }
        )
        return
    _show(rows, identified, load, fleet, folder)
    pages = [page for page in ("report.html", "result/fleet.html") if (folder / page).exists()]
    say(
        f"{seconds:.0f} s; everything is in {output}/"
        + (f": open {output}/{pages[0]}" if pages else "")
    )


def _show(
    rows: list[tuple[str, float, float, float, bool]],
    identified: Any,
    load: Any,
    fleet: Any,
    folder: Path,
) -> None:
    """Print what a demo found beside the truth."""
    from gough.core.display import rounded

    if identified is not None:
        best = sorted(rows, key=lambda row: row[3] / max(abs(row[2]), 1e-300))[:MOST_ROWS]
        more = f"; the {MOST_ROWS} best known of {len(rows)}" if len(rows) > MOST_ROWS else ""
        say(f"\n{identified.estimate.method}: 95 % intervals{more}")
        table(
            ["parameter", "true", "estimated", "sigma", "within?"],
            [
                [n, rounded(t, s)[0], *rounded(v, s), "yes" if w else "no"]
                for n, t, v, s, w in rows
                if any(n == row[0] for row in best)
            ],
        )
        say(f"{sum(w for *_, w in rows)} of {len(rows)} intervals hold the truth")
        say(identified.headline)
    if load is not None:
        say("\nload about the platform frame")
        table(
            ["parameter", "value", "sigma", "unit", "seen?"],
            [
                [
                    p["name"],
                    *rounded(p["value"], p["std"]),
                    p["unit"],
                    "yes" if p["observed"] else "no",
                ]
                for p in load.to_dict()["parameters"]
            ],
        )
    if fleet is not None:
        with open(folder / "truth.csv", encoding="utf-8", newline="") as stream:
            truth = {row["robot"]: row["text"] for row in csv.DictReader(stream)}
        say("\nwhat is wrong, and what was found")
        table(
            ["robot", "truth", "found"],
            [
                [name, text, "; ".join(a.text for a in fleet.alerts if a.robot == name)]
                for name, text in truth.items()
            ],
        )
        false = [f"{a.robot}: {a.text}" for a in fleet.alerts if a.robot not in truth]
        say("false alarms: " + ("; ".join(false) or "none"))
