"""Verbs that start from stored results."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from gough.app.report.report import comparison_page, write_report
from gough.app.studies.data import load_result, read_logs
from gough.app.studies.verbs import Description, Done, Folder, Force, Logs, from_file, to_file
from gough.core.errors import InvalidInput
from gough.core.files import require_free, write_text
from gough.core.options import About
from gough.fitting.estimate import Enclosure
from gough.identification.compare import CompareSettings, Comparison, compare as compare_results
from gough.identification.validation import Validation, validate_result


def validate(folder: Folder, logs: Logs, *, description: Description = None) -> Validation:
    """Do what `gough validate` does; see `VERBS`."""
    model, result = load_result(folder)
    return validate_result(model, result, read_logs(logs, description, model))


def compare(
    folders: Annotated[Sequence[str], from_file("Folders that `gough identify -o` wrote.")],
    settings: CompareSettings,
    *,
    logs: Annotated[Sequence[str], from_file("Logs that each model is to predict.")] = (),
    description: Description = None,
    output: Annotated[str | None, to_file("Write a page (.html).")] = None,
    force: Force = False,
) -> Comparison:
    """Do what `gough compare` does; see `VERBS`."""
    if len(folders) < 2:
        raise InvalidInput(f"{len(folders)} result is given, expected two or more")
    require_free(output, force)
    results = [load_result(folder) for folder in folders]
    recordings = read_logs(logs, description, results[0][0])
    found = compare_results(results, recordings, settings, labels=_labels(folders))
    if output is not None:
        write_text(output, comparison_page([result for _, result in results], found))
    return found


def _labels(folders: Sequence[str]) -> list[str]:
    """Return short names of folders: as many of their last words as tell them apart, numbers where
    none do.
    """
    words = [Path(folder).resolve().parts for folder in folders]
    for count in range(1, max(map(len, words)) + 1):
        found = ["/".join(parts[-count:]) for parts in words]
        if len(set(found)) == len(found):
            return found
    return [f"{Path(folder).name} ({k + 1})" for k, folder in enumerate(folders)]


def report(
    folder: Folder,
    *,
    output: Annotated[
        str | None, to_file("HTML file; report.html in the folder by default.")
    ] = None,
    force: Force = False,
) -> Done:
    """Do what `gough report` does; see `VERBS`."""
    model, result = load_result(folder)
    path = Path(folder) / "report.html" if output is None else Path(output)
    require_free(path, force)
    boxes = {box.stem: Enclosure.load(box) for box in sorted(Path(folder).glob("bounds*.json"))}
    write_report(model, replace(result, enclosures={**result.enclosures, **boxes}), path)
    return Done([path], {"report": str(path)})


def _exports() -> Iterable[str]:
    from gough.export import EXPORTS  # here, because other verbs start faster without it

    return EXPORTS


def export(
    folder: Folder,
    *,
    to: Annotated[
        str,
        About(
            help="c: controller code; json, toml: tables; urdf, mjcf: other simulators.",
            choices=_exports,
        ),
    ],
    output: Annotated[str | None, to_file("Folder; that of the result by default.")] = None,
    name: Annotated[
        str | None,
        About(
            help="Base name of the files; controller, parameters or the robot's name by default."
        ),
    ] = None,
    approximate: Annotated[
        bool,
        About(
            help="Write joint terms that URDF or MJCF have no words for as damping and friction; "
            "the file says what "
            "is lost."
        ),
    ] = False,
    force: Force = False,
) -> Done:
    """Do what `gough export` does; see `VERBS`."""
    from gough.export import export as export_model

    model, result = load_result(folder)
    return Done(
        [
            *export_model(
                model,
                result,
                Path(output or folder),
                to=to,
                name=name,
                force=force,
                approximate=approximate,
            )
        ]
    )
