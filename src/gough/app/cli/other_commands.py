"""Commands that are no verbs. Each imports what it needs when it is called."""

from __future__ import annotations

import csv
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from gough.app.cli.display import (
    Force,
    Json,
    exit_if_failed,
    print_json,
    progress,
    say,
    table,
)
from gough.app.studies.step import FailOn, has_failed
from gough.core.errors import InvalidInput, nearest

if TYPE_CHECKING:
    from gough.app.studies.monte_carlo import TrueAndEstimated

# of the table of parameters a demo prints; the report has all
DEMO_TABLE_ROWS = 30


def robots(
    copy: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Write this bundled robot to a file, as a start for your own."
        ),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", help="Robot file to write; NAME.toml by default."),
    ] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """List the bundled robots, or copy one of them.

    Example:  gough robots --copy delta -o my_delta.toml
    """
    from gough.mechanism import bundled_robots

    if copy is not None:
        target = _copy_robot(copy, output, force)
        if as_json:
            title = dict(bundled_robots())[copy]
            print_json([{"name": copy, "title": title, "file": str(target)}])
        else:
            say(f"wrote {target}; next: gough check {target}")
        return
    if output is not None or force:
        raise InvalidInput("--output and --force belong to --copy NAME")
    bundled = bundled_robots()
    if as_json:
        print_json([{"name": name, "title": title} for name, title in bundled])
    else:
        table(["robot", "what it is"], [[name, title] for name, title in bundled])


def _copy_robot(name: str, output: str | None, force: bool) -> Path:
    """Write a bundled robot to a file and return its path."""
    from gough.core.files import require_free, write_text
    from gough.mechanism import bundled_robots, robot_text

    names = [bundled for bundled, _ in bundled_robots()]
    if name not in names:
        raise InvalidInput(f"there is no bundled robot '{name}'{nearest(name, names)}")
    target = Path(output or f"{name}.toml")
    require_free(target, force)
    write_text(target, robot_text(name)[0])
    return target


def schema(
    of: Annotated[
        Literal["robot", "result"],
        typer.Argument(help="Of robot files, or of what verbs with a verdict print with --json."),
    ] = "robot",
) -> None:
    """Print a JSON Schema: of robot files, by which editors complete and check them, or of results.

    Example:  gough schema robot
    """
    if of == "result":
        from gough.app.studies.result_schema import result_schema

        print_json(result_schema())
        return
    from gough.mechanism.schema import json_schema

    print_json(json_schema())


def view(
    robot: Annotated[
        str,
        typer.Argument(help="Name of a bundled robot or path of a robot file."),
    ],
    log: Annotated[
        list[str] | None,
        typer.Option(help="A log to play; may be given again."),
    ] = None,
    result: Annotated[
        str | None,
        typer.Option(
            help="Folder that `gough identify -o` wrote: its logs, or its prediction of `--log`."
        ),
    ] = None,
    description: Annotated[
        str | None,
        typer.Option(help="TOML that says which column of a log is which."),
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; the next free one if it is taken.")] = 8080,
) -> None:
    """Show a robot in the browser, move it, and play a log with measured and predicted efforts.

    Example:  gough view five_bar --log run.csv --result result
    """
    from gough.app.studies.input_files import read_logs
    from gough.app.view.posture import Posture
    from gough.app.view.window import Window, playback
    from gough.identification.result import load_identification
    from gough.mechanism import load_robot

    posture = Posture(load_robot(robot))
    identification = None
    fits = []
    if result is not None:
        identification = load_identification(result)
        fits = list(identification.fits)
    if log and posture.model is not None:
        recordings = read_logs(log, description, posture.model)
        fits = [playback(posture.model, recording, identification) for recording in recordings]
    window = Window(posture, fits, host=host, port=port)
    if posture.problem:
        say(posture.problem)
    say(f"'{robot}' is at {window.address} (Ctrl-C to end)")
    window.run()


def run(
    study: Annotated[
        str,
        typer.Argument(help="Study file (TOML): section = verb, key = option."),
    ],
    fail_on: Annotated[
        FailOn | None,
        typer.Option(
            help="End with exit code 3 at the first step whose result has this level or a worse "
            "one, unless the step has a `fail_on` of its own."
        ),
    ] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Run the steps of a study file; paths are relative to it.

    Example:  gough run study.toml
    """
    from gough.app.studies.study_file import json_of_step, run_study

    done = []
    with progress(f"running {study}", quiet=as_json) as update:
        for verb, options, result in run_study(
            study, force=force, fail_on=fail_on, progress=update
        ):
            done.append({"verb": verb, "result": json_of_step(verb, options, result)})
            if not as_json:
                say(f"{verb}: {_headline(result)}")
            if has_failed(result, options.get("fail_on")):
                break
    if as_json:
        print_json(done)
    exit_if_failed(result, options.get("fail_on"))


def _headline(result: Any) -> str:
    """Return the first line of the summary of a result."""
    return str(result.summary()).splitlines()[0]


def demo(
    robot: Annotated[
        str,
        typer.Argument(help="palida, orthoglide, h4, stewart, five_bar or fleet."),
    ] = "palida",
    output: Annotated[
        str,
        typer.Option("-o", "--output", help="Folder for everything it makes."),
    ] = "gough-demo",
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Do the whole job on a bundled robot, from design to report and controller code.

    Example:  gough demo five_bar -o demo
    """
    from gough.app.studies.monte_carlo import truth_table
    from gough.app.studies.study_file import run_study
    from gough.core.files import require_free_folder, write_text

    text = _demo_study(robot)
    folder = require_free_folder(output, force)
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / "study.toml", text)
    if not as_json:
        say(f"{robot}: {text.splitlines()[0].lstrip('# ')}")
        say(f"recordings come from {_origin_of_recordings(text)}")
    started = monotonic()
    results: dict[str, Any] = {}
    rows: list[TrueAndEstimated] = []
    with progress("working", quiet=as_json) as update:
        for verb, options, result in run_study(folder / "study.toml", force=True, progress=update):
            results[verb] = result
            if verb == "identify":
                rows = truth_table(robot, result.estimate, bool(options.get("tie_legs")))
            if not as_json:
                say(f"  {monotonic() - started:5.1f} s  {verb}: {_headline(result)}")
    seconds = monotonic() - started
    if as_json:
        print_json(
            {
                "robot": robot,
                "seconds": seconds,
                "folder": output,
                "parameters": [_demo_parameter(row) for row in rows],
                **_demo_verdict(results.get("identify")),
                "payload": results["payload"].to_dict() if "payload" in results else None,
                "fleet": results["fleet"].to_dict() if "fleet" in results else None,
            }
        )
        return
    if "identify" in results:
        _print_identification(rows, results["identify"])
    if "payload" in results:
        _print_payload(results["payload"])
    if "fleet" in results:
        _print_fleet(results["fleet"], folder / "truth.csv")
    pages = [page for page in ("report.html", "result/fleet.html") if (folder / page).exists()]
    hint = f": open {output}/{pages[0]}" if pages else ""
    say(f"{seconds:.0f} s; everything is in {output}/{hint}")


def _demo_study(robot: str) -> str:
    """Return the study of a demo; its plant is Gough's own where Pinocchio is not installed."""
    from gough.core.errors import InvalidInput, nearest

    studies = {}
    for file in (resources.files("gough") / "demos").iterdir():
        studies[file.name.removesuffix(".toml")] = file
    if robot not in studies:
        raise InvalidInput(f"there is no demo of '{robot}'{nearest(robot, studies)}")
    text = studies[robot].read_text(encoding="utf-8")
    if find_spec("pinocchio") is None:
        return text.replace('"pinocchio"', '"gough"')
    return text


def _origin_of_recordings(study: str) -> str:
    """Return which equations the logs of a demo come from."""
    if "simulate]" not in study:
        return "the inverse model along the motion"
    if '"pinocchio"' in study:
        return "the independent plant (Pinocchio)"
    return "Gough's own plant"


def _demo_verdict(identification: Any) -> dict[str, Any]:
    """Return level, headline and notices of an identification as JSON can hold them."""
    if identification is None:
        return {"level": None, "headline": None, "notices": None}
    return {
        "level": identification.level,
        "headline": identification.headline,
        "notices": [notice.to_dict() for notice in identification.notices],
    }


def _demo_parameter(row: TrueAndEstimated) -> dict[str, Any]:
    return {
        "name": row.name,
        "true": row.true,
        "value": row.estimate,
        "std": row.standard_error,
        "within": row.within,
    }


def _print_identification(rows: list[TrueAndEstimated], identification: Any) -> None:
    """Print estimated parameters beside the true ones."""
    from gough.core.display import rounded

    def relative_error(row: TrueAndEstimated) -> float:
        return row.standard_error / max(abs(row.estimate), 1e-300)

    best = {row.name for row in sorted(rows, key=relative_error)[:DEMO_TABLE_ROWS]}
    more = ""
    if len(rows) > DEMO_TABLE_ROWS:
        more = f"; the {DEMO_TABLE_ROWS} best known of {len(rows)}"
    say(f"\n{identification.estimate.method}: 95 % intervals{more}")
    cells = []
    for row in rows:
        if row.name in best:
            true, _ = rounded(row.true, row.standard_error)
            estimate, error = rounded(row.estimate, row.standard_error)
            cells.append([row.name, true, estimate, error, "yes" if row.within else "no"])
    table(["parameter", "true", "estimated", "std. error", "within?"], cells)
    n_within = sum(row.within for row in rows)
    say(
        f"{n_within} of {len(rows)} intervals contain the true value, with this noise; other "
        f"noises: gough trials {identification.robot}"
    )
    say(identification.headline)


def _print_payload(payload: Any) -> None:
    """Print the estimated payload."""
    from gough.core.display import rounded

    say("\npayload about the platform frame")
    cells = []
    for parameter in payload.to_dict()["parameters"]:
        estimate, error = rounded(parameter["value"], parameter["std"])
        observed = "yes" if parameter["observed"] else "no"
        cells.append([parameter["name"], estimate, error, parameter["unit"], observed])
    table(["parameter", "value", "std. error", "unit", "observed?"], cells)


def _print_fleet(fleet: Any, truth_file: Path) -> None:
    """Print the faults of a virtual fleet beside the alerts."""
    with open(truth_file, encoding="utf-8", newline="") as stream:
        faults = {row["robot"]: row["text"] for row in csv.DictReader(stream)}
    alerts: dict[str, list[str]] = {name: [] for name in faults}
    false_alarms = []
    for alert in fleet.alerts:
        if alert.robot in faults:
            alerts[alert.robot].append(alert.text)
        else:
            false_alarms.append(f"{alert.robot}: {alert.text}")
    say("\nfaults, and what was found")
    cells = [[name, text, "; ".join(alerts[name])] for name, text in faults.items()]
    table(["robot", "truth", "found"], cells)
    say("false alarms: " + ("; ".join(false_alarms) or "none"))
