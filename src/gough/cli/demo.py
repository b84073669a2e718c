"""Do the whole job on a bundled robot: design, experiments, identification, bounds, report, controller code.

Example:  gough demo five_bar -o demo
"""

from __future__ import annotations

import csv
from importlib.util import find_spec
from pathlib import Path
from time import monotonic
from typing import Annotated

import typer

from gough.cli.common import Force, Json, print_json, progress, say, table
from gough.core.text import rounded
from gough.identification import Identification
from gough.identification.fleets.fleet import Fleet
from gough.identification.payload import PayloadResult
from gough.study.demo import demo_study, run_demo, truth_table

MOST_ROWS = 30  # of the table a demo prints; the report has all


def demo(
    robot: Annotated[str, typer.Argument(help="palida, orthoglide, h4, stewart, five_bar or fleet.")] = "palida",
    output: Annotated[str, typer.Option("-o", "--output", help="Folder for everything it makes.")] = "gough-demo",
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Run a demo, one line a step, and compare with the truth."""
    study = demo_study(robot)
    started = monotonic()
    identification: Identification | None = None
    load: PayloadResult | None = None
    found: Fleet | None = None
    tied = False
    if not as_json:
        say(f"{robot}: {study.splitlines()[0].lstrip('# ')}")
        source = "the independent plant (Pinocchio)" if '"pinocchio"' in study else "Gough's own plant"
        say(f"recordings come from {source if 'simulate]' in study else 'the inverse model along the motion'}")
        if find_spec("pinocchio") is None and '"plant"' in study:
            say("install gough[plant] for an independent plant")
    with progress("working", quiet=as_json) as update:
        for verb, options, result in run_demo(robot, output, force=force,
                                              tell=lambda verb, fraction: update(fraction)):
            if isinstance(result, Identification):
                identification, tied = result, bool(options.get("tie_legs"))
            if isinstance(result, PayloadResult):
                load = result
            if isinstance(result, Fleet):
                found = result
            if not as_json:
                say(f"  {monotonic() - started:5.1f} s  {verb}: {result.summary().splitlines()[0]}")
    seconds = monotonic() - started
    rows = [] if identification is None else truth_table(robot, identification.estimate, tied)
    if as_json:
        print_json({"robot": robot, "seconds": seconds, "folder": output,
                    "parameters": [{"name": n, "true": t, "value": v, "std": s, "within": w} for n, t, v, s, w in rows],
                    "verdict": None if identification is None else identification.verdict.to_dict(),
                    "payload": None if load is None else load.to_dict(),
                    "fleet": None if found is None else found.to_dict()})
        return
    if identification is not None:
        best = sorted(rows, key=lambda row: row[3] / max(abs(row[2]), 1e-300))[:MOST_ROWS]
        more = f"; the {MOST_ROWS} best known of {len(rows)}" if len(rows) > MOST_ROWS else ""
        table(f"\n{identification.estimate.method}: 95 % intervals{more}",
              ["parameter", "true", "estimated", "sigma", "within?"],
              [[n, rounded(t, s)[0], *rounded(v, s), "yes" if w else "no"] for n, t, v, s, w in rows
               if any(n == row[0] for row in best)])
        say(f"{sum(w for *_, w in rows)} of {len(rows)} intervals hold the truth")
        say(f"verdict: {identification.verdict}")
    if load is not None:
        table("\nload about the platform frame", ["parameter", "value", "sigma", "unit", "seen?"],
              [[p["name"], *rounded(p["value"], p["std"]), p["unit"], "yes" if p["observed"] else "no"]
               for p in load.to_dict()["parameters"]])
    if found is not None:
        show_fleet(found, Path(output) / "truth.csv")
    say(f"{seconds:.0f} s; everything is in {output}/" +
        next((f": open {output}/{page}" for page in ("report.html", "result/fleet.html")
              if (Path(output) / page).exists()), ""))


def show_fleet(found: Fleet, path: Path) -> None:
    """Print what was found in a virtual fleet beside what is wrong with it."""
    with open(path, encoding="utf-8", newline="") as stream:
        truth = list(csv.DictReader(stream))
    table("\nwhat is wrong, and what was found", ["robot", "truth", "found"], [
        [row["robot"], row["text"], "; ".join(a.text for a in found.alerts if a.robot == row["robot"])]
        for row in truth])
    false = [a for a in found.alerts if a.robot not in {row["robot"] for row in truth}]
    say("false alarms: " + ("; ".join(f"{a.robot}: {a.text}" for a in false) or "none"))
