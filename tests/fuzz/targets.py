"""A fuzz target for each reader: damaged files give a GoughError that names the file, or a value.

python tests/fuzz/targets.py READER 10000 [seed]

Runs in a process of its own: it ends with an error after a traceback, after 20 s for one file,
and with more than 1 GB of memory.
"""

from __future__ import annotations

import random
import resource
import signal
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

TESTS = Path(__file__).resolve().parents[1]
for _folder in ("", "logs", "formats", "export", "fitting", "fuzz"):
    sys.path.append(str(TESTS / _folder))

import damage  # noqa: E402
import numpy as np  # noqa: E402

from gough.core.errors import GoughError  # noqa: E402

MAX_SECONDS = 20  # for one file
MAX_MEMORY = 2**30  # [bytes]


class Sound(NamedTuple):
    """A sound file, how it is damaged, and how it is read."""

    path: Path
    damage: damage.Damage
    read: Callable[[Path], object]


def logs(folder: Path) -> list[Sound]:
    from sound_logs import sound_logs

    from gough.logs.readers import read_recording
    from gough.logs.survey import survey

    sounds = []
    for path, description in sound_logs(folder):
        how = damage.damage_bytes
        if path.suffix == ".csv":
            how = damage.either(damage.damage_table)
        elif path.suffix == ".npz":
            how = damage.either(damage.damage_arrays)

        def read(file: Path, description=description) -> object:
            survey(file)
            return read_recording(file, description)

        sounds.append(Sound(path, how, read))
    return sounds


def vendor_logs(folder: Path) -> list[Sound]:
    from vendor_files import VENDOR_DOORS

    from gough.logs.readers import read_recording
    from gough.logs.survey import survey

    structured = {".xlsx": damage.damage_archive, ".jsonl": damage.damage_json_lines}
    sounds = []
    for write in VENDOR_DOORS:
        place = folder / write.__name__
        place.mkdir()
        description = write(place)
        log = next(place.iterdir())

        def read(file: Path, log=log, description=description) -> object:
            survey(log)
            return read_recording(log, description)

        files = [log]
        if log.is_dir():  # a dataset: its facts and its first file
            files = [log / "meta/info.json", next(log.glob("data/*/*.parquet"))]
        for path in files:
            how = structured.get(path.suffix, damage.damage_bytes)
            if path.suffix == ".json":
                how = damage.damage_json
            sounds.append(Sound(path, damage.either(how), read))
    return sounds


def _written(folder: Path, name: str, text: str | bytes) -> Path:
    """Write a sound file into a folder of its own."""
    place = folder / name.replace(".", "_")
    place.mkdir()
    path = place / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def robots(folder: Path) -> list[Sound]:
    from gough.mechanism import load_robot
    from gough.mechanism.files import robot_text

    sounds = []
    for name in ("five_bar", "palida", "upv"):
        path = _written(folder, f"{name}.toml", robot_text(name)[0])
        sounds.append(Sound(path, damage.either(damage.damage_toml), load_robot))
    return sounds


def _read_scene(path: Path, folder: Path) -> object:
    """Read a model of several files, whichever of them is damaged."""
    from gough.mechanism import load_robot

    return load_robot(folder / "scene.xml")


def imports(folder: Path) -> list[Sound]:
    from foreign import ARM, BARS, BARS_YAML
    from test_import_mjcf import GRIPPER
    from test_import_sdf import LOOP
    from test_import_stated_loops import CLOSING, URDF_PLUS, write_scene
    from test_import_symoro import PARALLELOGRAM

    from gough.mechanism import load_robot

    pin = CLOSING.replace("</robot>", URDF_PLUS + "</robot>")
    files = {"arm.urdf": ARM, "pin.urdf": pin, "gripper.xml": GRIPPER, "loop.sdf": LOOP}
    sounds = []
    for name, text in files.items():
        path = _written(folder, name, text)
        sounds.append(Sound(path, damage.either(damage.damage_xml), load_robot))
    scene = folder / "scene"
    scene.mkdir()
    write_scene(scene)
    for name in ("scene.xml", "lower.xml"):
        how = damage.either(damage.damage_xml)
        read = partial(_read_scene, folder=scene)
        sounds.append(Sound(scene / name, how, read))
    path = _written(folder, "arm.par", PARALLELOGRAM)
    sounds.append(Sound(path, damage.damage_bytes, load_robot))
    bars = _written(folder, "bars.urdf", BARS)
    loops = bars.with_suffix(".yaml")
    loops.write_text(BARS_YAML)
    how = damage.either(damage.damage_yaml)
    sounds.append(Sound(loops, how, lambda path: load_robot(path.with_suffix(".urdf"))))
    return sounds


DESCRIPTION = """format = 1
joints = ["a", "b"]
rate = "100 Hz"
start = "1 s"
[time]
columns = ["t"]
units = ["ms"]
[position]
columns = ["qa", "qb"]
units = ["rad", "deg"]
scale = [1.0, -1.0]
unwrap = true
[effort]
columns = ["ta", "tb"]
unit = "N m"
delay = "2 ms"
[extra]
names = ["temperature"]
columns = ["T"]
unit = "degC"
"""
STUDY = """format = 1
robot = "five_bar"
[design]
frequency = 0.5
output = "t.json"
[[simulate]]
trajectory = "t.json"
periods = 2
output = "log.csv"
[identify]
logs = ["log.csv", "b.csv@its.toml"]
estimator = "wls"
cutoff = 20.0
output = "result"
"""
FLEET = """format = 1
robot = "five_bar"
logs = "logs.csv"
zone = "Europe/Berlin"
"""
LOGS = "log,robot,time,temperature\n" + "a.csv,r1,2024-01-01T10:00:00,21\n" * 1
LOGS += "b.csv@its.toml,r2,2024-01-02T10:00:00+01:00,\n"


def descriptions(folder: Path) -> list[Sound]:
    from gough.logs.description import load_description

    path = _written(folder, "its.toml", DESCRIPTION)
    return [Sound(path, damage.either(damage.damage_toml), load_description)]


def studies(folder: Path) -> list[Sound]:
    from gough.app.studies.study_file import read_study

    path = _written(folder, "study.toml", STUDY)
    return [Sound(path, damage.either(damage.damage_toml), read_study)]


def fleets(folder: Path) -> list[Sound]:
    from gough.app.studies.fleet_file import read_fleet_file
    from gough.fleets.fleet import FleetSettings

    def read(path: Path) -> object:
        return read_fleet_file(str(path.parent / "fleet.toml"), FleetSettings())

    header = _written(folder, "fleet.toml", FLEET)
    (header.parent / "logs.csv").write_text(LOGS)
    table = _written(folder, "logs.csv", LOGS)
    (table.parent / "fleet.toml").write_text(FLEET)
    return [
        Sound(header, damage.either(damage.damage_toml), read),
        Sound(table, damage.either(damage.damage_table), read),
    ]


def results(folder: Path) -> list[Sound]:
    from results import result_with

    from gough.identification.result import load_identification

    def read(path: Path) -> object:
        return load_identification(path.parent)

    sounds = []
    for name, how in (("estimate.json", damage.damage_json), ("fits.npz", damage.damage_arrays)):
        (folder / name.split(".")[0]).mkdir()
        result_with().save(folder / name.split(".")[0])
        sounds.append(Sound(folder / name.split(".")[0] / name, damage.either(how), read))
    with np.load(sounds[1].path) as arrays:
        if not arrays.files:  # a result without fits
            sounds[1] = sounds[1]._replace(damage=damage.damage_bytes)
    return sounds


def trajectories(folder: Path) -> list[Sound]:
    from gough.core.trajectory import Fourier, load_trajectory

    rng = np.random.default_rng(1)
    trajectory = Fourier(
        coordinates=("a", "b"),
        units=("rad", "m"),
        frequency=0.5,
        offset=np.zeros(2),
        mu=rng.standard_normal((3, 2)),
        nu=rng.standard_normal((3, 2)),
    )
    path = folder / "t.json"
    trajectory.save(path)
    table = folder / "t.csv"
    trajectory.to_csv(table, rate=20.0)
    return [
        Sound(path, damage.either(damage.damage_json), load_trajectory),
        Sound(table, damage.either(damage.damage_table), load_trajectory),
    ]


def factors(folder: Path) -> list[Sound]:
    import io
    import json

    from test_log_statistics import factor

    from gough.fitting.log_statistics import _digest, load_log_statistics

    def damaged(content: bytes, rng: random.Random) -> bytes:
        """Return damaged arrays and facts with a checksum that fits."""
        with np.load(io.BytesIO(damage.damage_arrays(content, rng))) as stored:
            arrays = {name: stored[name] for name in stored.files}
        with np.load(io.BytesIO(content)) as stored:
            facts = json.loads(str(stored["facts"]))
        arrays.pop("facts", None)
        facts["sha256"] = _digest(arrays)
        if rng.random() < 0.5:
            damage.damage_structure(facts, rng)
        buffer = io.BytesIO()
        np.savez_compressed(buffer, facts=np.array(json.dumps(facts)), **arrays)
        return buffer.getvalue()

    path = factor(1).save(folder)
    return [Sound(Path(path), damage.either(damaged), load_log_statistics)]


TARGETS: dict[str, Callable[[Path], list[Sound]]] = {
    "log": logs,
    "vendor_log": vendor_logs,
    "robot": robots,
    "import": imports,
    "description": descriptions,
    "study": studies,
    "fleet": fleets,
    "result": results,
    "trajectory": trajectories,
    "factor": factors,
}


def outcome_of(sound: Sound) -> str:
    """Read a damaged file; anything but an error of Gough that names it comes through."""
    try:
        sound.read(sound.path)
    except GoughError as error:
        message = str(error)
        folders = [folder.name for folder in list(sound.path.parents)[:2]]
        if not any(name in message for name in (sound.path.stem, *folders)):
            raise AssertionError(f"the error does not name the file: {message}") from error
        if len(message) < 20:
            raise AssertionError(f"the error says too little: {message}") from error
        return "refused"
    return "read"


def _too_long(number: int, frame: object) -> None:
    raise TimeoutError(f"reading took more than {MAX_SECONDS} s")


def run(reader: str, count: int, seed: int = 0) -> Counter[str]:
    """Read so many damaged files; return how often they were read and refused."""
    rng = random.Random(f"{reader} {seed}")
    outcomes: Counter[str] = Counter()
    warnings.simplefilter("error")
    signal.signal(signal.SIGALRM, _too_long)
    with tempfile.TemporaryDirectory() as name:
        sounds = TARGETS[reader](Path(name))
        contents = [sound.path.read_bytes() for sound in sounds]
        for k in range(count):
            sound = sounds[k % len(sounds)]
            damaged = sound.damage(contents[k % len(sounds)], rng)
            sound.path.write_bytes(damaged)
            signal.alarm(MAX_SECONDS)
            try:
                outcomes[outcome_of(sound)] += 1
            except BaseException:
                kept = Path(f"damaged-{reader}-{k}{sound.path.suffix}")
                kept.write_bytes(damaged)
                print(f"{reader} {k} of seed {seed}: {sound.path.name}, kept as {kept.resolve()}")
                raise
            finally:
                signal.alarm(0)
            sound.path.write_bytes(contents[k % len(sounds)])
    return outcomes


if __name__ == "__main__":
    words = sys.argv[1:]
    resource.setrlimit(resource.RLIMIT_AS, (8 * MAX_MEMORY, 8 * MAX_MEMORY))
    counted = run(words[0], int(words[1]), int(words[2]) if len(words) > 2 else 0)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(f"{words[0]}: {dict(counted)}, {peak / 2**20:.0f} MiB at most")
    if peak > MAX_MEMORY:
        sys.exit(f"more than {MAX_MEMORY / 2**20:.0f} MiB")
