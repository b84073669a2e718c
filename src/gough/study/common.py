"""What verbs have in common: arguments that several of them take, and the files they wrote."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from gough.core.options import About

Progress = Callable[[float], None]
Robot = Annotated[str, About(help="Name of a bundled robot (see `gough robots`) or path of a robot file.", file=True)]
Logs = Annotated[Sequence[str], About(
    help="Logs: .csv, .npz, .mat, .parquet, or a folder with a description; log.csv@its.toml has one of its own.",
    file=True)]
Folder = Annotated[str, About(help="Folder that `gough identify -o` wrote.", file=True)]
DESCRIPTION = About(help="TOML that says which column of a log is which; see the documentation.", file=True)
Description = Annotated[str | None, DESCRIPTION]
Force = Annotated[bool, About(help="Overwrite what is already there.")]


@dataclass(frozen=True, kw_only=True)
class Written:
    """Files that a verb wrote, and what a machine calls them: `files`, or a word for one file."""

    files: tuple[Path, ...]
    key: str = "files"

    def to_dict(self) -> dict[str, Any]:
        names = [str(file) for file in self.files]
        return {self.key: names if self.key == "files" else names[0]}

    def summary(self) -> str:
        return "\n".join(f"wrote {file}" for file in self.files)
