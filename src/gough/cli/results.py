"""`gough identify`, `validate`, `bounds`, `payload`, `report` and `export`."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer

from gough.cli.common import Force, Json, Robot, TieLegs, print_json, progress, say, table
from gough.core.errors import InvalidInput
from gough.core.names import LOAD

Logs = Annotated[list[str], typer.Argument(help="Logs: .csv, .npz, .mat, .parquet, or a folder with --description.")]
Description = Annotated[str | None, typer.Option(help="TOML that says which column is which; see the documentation.")]
Folder = Annotated[str, typer.Argument(help="Folder that `gough identify -o` wrote.")]


class EstimatorChoice(StrEnum):
    """Estimators of `gough identify`."""

    ls = "ls"
    wls = "wls"
    gm = "gm"
    tls = "tls"
    ml = "ml"
    robust = "robust"
    feasible = "feasible"
    all = "all"


class MethodChoice(StrEnum):
    """Ways of processing a log."""

    auto = "auto"
    explicit = "explicit"
    implicit = "implicit"
    time = "time"
    raw = "raw"


class BoundsMethod(StrEnum):
    """Ways of enclosing parameters."""

    gauss_seidel = "gauss-seidel"
    exact = "exact"


def identify_verb(
    robot: Robot,
    logs: Logs,
    loaded: Annotated[list[str] | None, typer.Option(help="Logs with a known payload.")] = None,
    payload: Annotated[str | None, typer.Option(help="That payload: a name of the robot file, or mass=1.983.")] = None,
    estimator: Annotated[EstimatorChoice, typer.Option(
        help="gm: Gauss-Markov; tls: with drive gains from --loaded; all: side by side.")] = EstimatorChoice.gm,
    validate: Annotated[list[str] | None, typer.Option(help="Logs to validate on, not used otherwise.")] = None,
    essential: Annotated[bool, typer.Option("--essential", help="Keep only the essential parameters.")] = False,
    ratio: Annotated[float, typer.Option(help="Ratio of relative deviations at which that ends.")] = 10.0,
    tie_legs: TieLegs = False,
    structures: Annotated[bool, typer.Option(
        "--structures", help="Also compare friction structures, test whether legs are alike.")] = False,
    description: Description = None,
    method: Annotated[MethodChoice, typer.Option(help="Processing; auto chooses by the log.")] = MethodChoice.auto,
    cutoff: Annotated[float | None, typer.Option(help="Low-pass cut-off [Hz]; from the data by default.")] = None,
    decimation: Annotated[int | None, typer.Option(help="Decimation; from the data by default.")] = None,
    window: Annotated[float | None, typer.Option(help="Leave out so much about reversals [s].")] = None,
    gain: Annotated[list[str] | None, typer.Option(help="Drive gain, motor=value; several times.")] = None,
    output: Annotated[str | None, typer.Option("-o", "--output", help="Folder for the result.")] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Identify a robot from its logs: parameters with uncertainty, and a verdict.

    Example:  gough identify five_bar log.csv --validate other.csv -o result
    """
    from gough.study import verbs

    with progress(f"identifying {robot}", quiet=as_json) as update:
        result = verbs.identify(
            robot=robot, logs=logs, loaded=loaded or (), payload=payload, estimator=estimator.value,
            validate=validate or (), essential=essential, ratio=ratio, tie_legs=tie_legs, structures=structures,
            description=description, method=method.value, cutoff=cutoff, decimation=decimation, window=window,
            gains=_gains(gain), output=output, force=force, progress=update)
    if as_json:
        print_json(result.to_dict())
        return
    say(result.summary())
    if output is not None:
        say(f"\nwrote {output}; next: gough report {output}")


def _gains(options: list[str] | None) -> dict[str, float] | None:
    found = {}
    for option in options or []:
        name, _, value = option.partition("=")
        try:
            found[name] = float(value)
        except ValueError:
            raise InvalidInput(f"--gain {option}: expected motor=number, e.g. leg1.slider=2170") from None
    return found or None


def validate_verb(folder: Folder, logs: Logs, description: Description = None, as_json: Json = False) -> None:
    """Judge a result on logs it has not seen.

    Example:  gough validate result other.csv
    """
    from gough.study import verbs

    result = verbs.validate(folder=folder, logs=logs, description=description)
    if as_json:
        print_json(result.to_dict())
    else:
        say(result.summary())


def bounds_verb(
    robot: Robot,
    logs: Logs,
    error_bound: Annotated[float, typer.Option(help="Largest error of any effort [N or N m].")],
    method: Annotated[BoundsMethod, typer.Option(help="exact: smallest box; gauss-seidel: P03.")] = BoundsMethod.exact,
    outliers: Annotated[int, typer.Option(help="Remove up to so many contradicting equations.")] = 0,
    prior: Annotated[tuple[float, float] | None, typer.Option(help="Bounds of all parameters beforehand.")] = None,
    threshold: Annotated[float | None, typer.Option(
        help="Speed below which friction may have any sign [m/s or rad/s].")] = None,
    cutoff: Annotated[float | None, typer.Option(help="Low-pass of positions [Hz]; from the data if absent.")] = None,
    window: Annotated[float | None, typer.Option(help="Leave out so much about reversals [s].")] = None,
    tie_legs: TieLegs = False,
    description: Description = None,
    output: Annotated[str | None, typer.Option("-o", "--output", help="Write the box as JSON.")] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Enclose the parameters in guaranteed bounds, given the largest error of the efforts.

    Example:  gough bounds five_bar log.csv --error-bound 0.5
    """
    from gough.study import verbs

    with progress(f"bounding {robot}", quiet=as_json):
        result = verbs.bounds(robot=robot, logs=logs, error_bound=error_bound, method=method.value, outliers=outliers,
                              prior=prior, threshold=threshold, cutoff=cutoff, window=window, tie_legs=tie_legs,
                              description=description, output=output, force=force)
    if as_json:
        print_json(result.to_dict())
        return
    say(result.summary())
    if output is not None:
        say(f"wrote {output}")


def payload_verb(
    robot: Robot,
    logs: Logs,
    model: Annotated[str | None, typer.Option(help="Folder of `gough identify`: the unloaded robot's model.")] = None,
    mass: Annotated[float | None, typer.Option(help="How heavy a load may be [kg].")] = None,
    reach: Annotated[float | None, typer.Option(help="How far it may extend [m].")] = None,
    description: Description = None,
    as_json: Json = False,
) -> None:
    """Find the load in a log sample by sample, all ten parameters, and say which the motion does not show.

    Example:  gough payload five_bar log.csv
    """
    from gough.study import verbs

    with progress(f"looking for the load of {robot}", quiet=as_json):
        result = verbs.payload(robot=robot, logs=logs, model=model, mass=mass, reach=reach, description=description)
    facts: dict[str, Any] = result.to_dict()
    if as_json:
        print_json(facts)
        return
    table(f"{facts['robot']}: load about the platform frame, from {facts['samples']} samples",
          ["parameter", "value", "std", "unit", "seen?"],
          [[p["name"], f"{p['value']:.5g}", f"{p['std']:.2g}", p["unit"], "yes" if p["observed"] else "not observable"]
           for p in facts["parameters"]])
    for text in facts["unobserved_combinations"]:
        if text not in LOAD:  # these the table says
            say(f"not seen on this motion: {text}")


def report_verb(
    folder: Folder,
    output: Annotated[str | None, typer.Option("-o", "--output", help="HTML file; report.html in the folder.")] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Write the report of a result: one self-contained HTML file.

    Example:  gough report result
    """
    from gough.study import verbs

    with progress("writing the report", quiet=as_json):
        path = verbs.report(folder=folder, output=output, force=force)
    if as_json:
        print_json({"report": str(path)})
    else:
        say(f"wrote {path}")


def export_verb(
    folder: Folder,
    to: Annotated[str, typer.Option(help="c: controller code; json, toml: tables; urdf, mjcf: other simulators.")],
    output: Annotated[str | None, typer.Option("-o", "--output", help="Folder; that of the result by default.")] = None,
    name: Annotated[str | None, typer.Option(help="Base name of the files; controller, parameters or the robot's name "
                                                   "by default.")] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Write a result as controller code, tables, URDF or MJCF.

    Example:  gough export result --to c
    """
    from gough.study import verbs

    with progress(f"exporting {folder}", quiet=as_json):
        paths = verbs.export(folder=folder, to=to, output=output, name=name, force=force)
    if as_json:
        print_json({"files": [str(path) for path in paths]})
    else:
        for path in paths:
            say(f"wrote {path}")
