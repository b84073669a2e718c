"""What is uploaded to a package index: complete, and shown there as it should be."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email import message_from_bytes
from email.message import Message
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
for needed in ("build", "twine"):
    pytest.importorskip(needed)

ROOT = Path(__file__).parents[2]
FOLDERS = ("benchmarks", "docs", "examples", "src", "tests")
FILES = (
    "CHANGELOG.md",
    "CITATION.cff",
    "CONTRIBUTING.md",
    "LICENSE",
    "MANIFEST.in",
    "Makefile",
    "README.md",
    "mkdocs.yml",
    "pyproject.toml",
    "setup.py",
    "tools.py",
)
IGNORED = shutil.ignore_patterns("__pycache__", "*.egg-info", ".hypothesis")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder with the built source distribution and wheel."""
    tree = tmp_path_factory.mktemp("tree")
    for name in FOLDERS:
        shutil.copytree(ROOT / name, tree / name, ignore=IGNORED)
    for name in FILES:
        shutil.copy(ROOT / name, tree)
    done = subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", str(tree)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return tree / "dist"


def one_file(folder: Path, ending: str) -> Path:
    """Return the only file with an ending."""
    (path,) = folder.glob(f"*{ending}")
    return path


@pytest.fixture(scope="module")
def metadata(built: Path) -> Message:
    with zipfile.ZipFile(one_file(built, ".whl")) as wheel:
        name = next(name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
        return message_from_bytes(wheel.read(name))


def below(folder: Path) -> set[str]:
    """Return the files of a folder of the project that belong to it."""
    paths = [path for path in folder.rglob("*") if path.is_file()]
    names = {path.relative_to(ROOT).as_posix() for path in paths}
    made = ("__pycache__", ".egg-info/", ".hypothesis/")
    return {name for name in names if not any(word in name for word in made)}


def test_the_source_distribution_has_tests_documentation_and_examples(built: Path) -> None:
    with tarfile.open(one_file(built, ".tar.gz")) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = set(FILES)
    for folder in FOLDERS:
        wanted |= below(ROOT / folder)
    assert wanted - names == set()


def test_the_wheel_has_every_file_of_the_package_and_nothing_else(built: Path) -> None:
    with zipfile.ZipFile(one_file(built, ".whl")) as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name}
    package = {name.removeprefix("src/") for name in below(ROOT / "src")}
    assert names == package


def test_an_index_accepts_and_shows_it(built: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "twine", "check", "--strict", *map(str, built.iterdir())],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("PASSED") == 2


def test_links_and_pictures_of_the_description_are_absolute(metadata: Message) -> None:
    text = str(metadata.get_payload())
    targets = re.findall(r"\]\(([^)\s]+)\)", text)
    assert len(targets) > 10
    assert [target for target in targets if not target.startswith(("https://", "#"))] == []
    relative = re.sub(r"https://[^)]+/(?:blob|raw)/main/", "", text)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert relative.strip() == readme.strip()


def test_authors_addresses_and_licence_are_named(metadata: Message) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert metadata["Author"] == "The Gough authors"
    assert metadata["License-Expression"] == "Apache-2.0"
    assert len(metadata.get_all("Project-URL") or []) == len(project["urls"])
    assert "parallel robots" in metadata["Keywords"]
    assert "Typing :: Typed" in (metadata.get_all("Classifier") or [])
