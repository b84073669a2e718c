"""Recorded units of currents, counters that start again, channels that cannot be right."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest

from gough import open_recording, read_recording
from gough.core.errors import InvalidRecording
from gough.logs.checks import inspected
from gough.logs.outliers import find_jumps, jump_notices
from gough.logs.recording import Recording

TIME = np.arange(2000) / 1000.0


def write(path: Path, columns: dict[str, np.ndarray]) -> None:
    np.savetxt(
        path,
        np.column_stack(list(columns.values())),
        delimiter=",",
        header=",".join(columns),
        comments="",
    )


def describe(path: Path, position: str = "", current: str = 'unit = "mA"') -> Path:
    path.write_text(f"""format = 1
joints = ["a"]
[time]
columns = ["t"]
units = ["s"]
[position]
columns = ["q"]
unit = "deg"
{position}
[current]
columns = ["i"]
{current}
""")
    return path


@pytest.mark.parametrize("unit", ["mA", "A", "%", "‰", "permille", "V", "1"])
def test_a_current_stays_as_it_was_recorded_because_a_gain_is_per_recorded_unit(
    tmp_path: Path, unit: str
) -> None:
    write(tmp_path / "log.csv", {"t": TIME, "q": np.sin(TIME), "i": np.cos(TIME)})
    log = read_recording(
        tmp_path / "log.csv", describe(tmp_path / "d.toml", current=f'unit = "{unit}"')
    )
    assert log.current is not None
    assert log.current[:, 0] == pytest.approx(np.cos(TIME))
    assert log.current_units == (unit,)


@pytest.mark.parametrize(
    ("raw", "key", "turn"),
    [
        (lambda q: np.degrees(q) % 360, "unwrap = true", 2 * np.pi),
        (lambda q: np.degrees(q) % 20, "unwrap = 20", np.radians(20)),
        (lambda q: (np.degrees(q) / 0.5) % 360, "unwrap = true\nscale = 0.5", np.pi),
    ],
)
def test_a_counter_that_starts_again_is_unrolled_whole_and_in_blocks(
    tmp_path: Path, raw: object, key: str, turn: float
) -> None:
    q = 10 * np.sin(2 * TIME)
    write(tmp_path / "log.csv", {"t": TIME, "q": raw(q), "i": q})  # type: ignore[operator]
    reference = f'unit = "mA"\n[reference]\ncolumns = ["q"]\nunit = "deg"\n{key}'
    description = describe(tmp_path / "d.toml", key, reference)
    whole = read_recording(tmp_path / "log.csv", description).position[:, 0]
    assert np.diff(whole) == pytest.approx(np.diff(q), abs=1e-9)
    assert abs((whole[0] - q[0]) / turn - round((whole[0] - q[0]) / turn)) < 1e-9
    blocks = list(open_recording(tmp_path / "log.csv", description).blocks(77))
    for kind in ("position", "reference"):
        assert np.concatenate([getattr(b, kind)[:, 0] for b in blocks]) == pytest.approx(
            whole, abs=1e-9
        )


def test_unwrap_of_what_has_no_turn_asks_for_the_number(tmp_path: Path) -> None:
    write(tmp_path / "log.csv", {"t": TIME, "q": TIME, "i": TIME})
    text = describe(tmp_path / "d.toml", "unwrap = true").read_text().replace('"deg"', '"mm"')
    (tmp_path / "d.toml").write_text(text)
    with pytest.raises(InvalidRecording, match="65536"):
        read_recording(tmp_path / "log.csv", tmp_path / "d.toml")


def kinds(values: np.ndarray) -> list[str]:
    log = Recording(joints=("q",), time=TIME, position=values[:, None], position_units=("rad",))
    return [notice.rule for notice in jump_notices(find_jumps(log))]


def test_wraps_and_lost_counts_are_found_and_told_apart() -> None:
    smooth = 3 * np.sin(2 * TIME)
    assert kinds((smooth + np.pi) % (2 * np.pi)) == []
    assert kinds((2 * smooth + np.pi) % (2 * np.pi)) == ["wrap"]
    assert kinds(smooth + 0.3 * (TIME > 1.2)) == ["jump"]


@pytest.mark.parametrize("seed", range(8))
def test_ordinary_motion_does_not_jump(seed: int) -> None:
    rng = np.random.default_rng(seed)
    speed = rng.uniform(0.05, 8)
    smooth = rng.uniform(0.1, 3) * np.sin(speed * TIME + rng.uniform(0, 6))
    noisy = smooth + rng.uniform(1e-7, 1e-4) * rng.standard_normal(len(TIME))
    step = 10 ** rng.uniform(-6, -2)
    stops = np.repeat(smooth[::200], 200)[: len(TIME)] * 0 + np.interp(
        TIME, TIME[::250], rng.standard_normal(8)
    )
    for values in (smooth, noisy, np.round(noisy / step) * step, stops):
        assert kinds(values) == []


def recording(effort: np.ndarray, position: np.ndarray) -> Recording:
    return Recording(
        joints=("a", "b"),
        time=TIME,
        position=position,
        position_units=("rad", "rad"),
        effort=effort,
    )


def test_arrays_get_the_checks_of_a_file() -> None:
    q = np.stack([np.sin(3 * TIME), np.cos(2 * TIME)], axis=1)
    same = np.stack([np.sin(TIME), np.sin(TIME)], axis=1)
    dead = np.stack([np.sin(TIME), np.zeros(len(TIME))], axis=1)
    assert {f.rule for f in inspected(recording(same, q)).notices} == {"duplicated"}
    assert {f.rule for f in inspected(recording(dead, q)).notices} == {"dead"}
    once = inspected(recording(dead, q))
    assert inspected(once) is once


def test_an_npz_that_claims_more_than_it_holds_is_refused(tmp_path: Path) -> None:
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<f8", "fortran_order": False, "shape": (10**15,)}
    )
    with zipfile.ZipFile(tmp_path / "log.npz", "w") as archive:
        archive.writestr("time.npy", header.getvalue() + bytes(8192))
    with pytest.raises(InvalidRecording, match=r"log\.npz cannot be read.*allocate"):
        read_recording(tmp_path / "log.npz")


@pytest.mark.parametrize(
    ("limit", "values"),
    [
        ("logs.npz.MAX_UNPACKED_BYTES", np.random.default_rng(0).standard_normal(10**6)),
        ("core.files.FREE_UNPACKED_BYTES", np.zeros(10**6)),
    ],
    ids=["noise", "zeros"],
)
def test_an_npz_that_unpacks_to_gigabytes_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, values: np.ndarray
) -> None:
    """Anything beyond 2 GiB, and zeros, which pack a thousand times, beyond a quarter of one."""
    monkeypatch.setattr(f"gough.{limit}", 10**6)
    np.savez_compressed(tmp_path / "log.npz", time=values)
    with pytest.raises(InvalidRecording, match=r"unpacks to more|too large"):
        read_recording(tmp_path / "log.npz")


def test_a_table_of_one_endless_line_is_refused(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("1," * 2**22)
    with pytest.raises(InvalidRecording, match="line 1 has more than"):
        read_recording(tmp_path / "log.csv")


def test_nested_json_in_the_first_line_is_refused(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text(
        "# gough-recording 1 " + "[" * 100_000 + "\ntime [s],a.position [rad]\n0,1\n"
    )
    with pytest.raises(InvalidRecording, match="damaged"):
        read_recording(tmp_path / "log.csv")
