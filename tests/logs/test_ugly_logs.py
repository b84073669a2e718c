"""Logs as machines really write them: text among numbers, quotes, repeated names, poison deep
inside.
"""

import numpy as np
import pytest

from gough.core.errors import InvalidRecording
from gough.logs.readers import read_recording
from gough.logs.recording import Recording
from gough.logs.recording_sources import open_recording

HEADER = "time [s],a.position [m],a.effort [N]"
ROWS = ("0.0,0.5,1", "0.1,0.6,2", "0.2,0.7,4")


def write(folder, *lines: str, name: str = "run.csv"):
    path = folder / name
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("word", ["RUN", "2026-01-31 12:00:00", "", "'ok'"])
def test_a_column_of_text_is_left_out_and_reported(tmp_path, word: str) -> None:
    path = write(tmp_path, HEADER + ",state", *(f"{row},{word}" for row in ROWS))
    found = read_recording(path)
    assert np.array_equal(found.effort[:, 0], [1, 2, 4])
    assert [f.where for f in found.notices if f.rule == "ignored"] == ["state"]
    assert sum(len(block) for block in open_recording(path).blocks(2)) == 3


def test_a_column_of_text_that_is_needed_is_refused_with_line_and_column(tmp_path) -> None:
    path = write(tmp_path, HEADER, *(row + " N" for row in ROWS))
    with pytest.raises(
        InvalidRecording, match=r"run\.csv: column 'a\.effort \[N\]' holds '1 N' in line 2"
    ):
        read_recording(path)


def test_quoted_numbers_are_numbers(tmp_path) -> None:
    quoted = (",".join(f'"{cell}"' for cell in row.split(",")) for row in ROWS)
    assert np.array_equal(
        read_recording(write(tmp_path, HEADER, *quoted)).position[:, 0], [0.5, 0.6, 0.7]
    )


def test_units_behind_a_space_belong_to_their_column_in_tables_cut_by_spaces(tmp_path) -> None:
    header = "time [s]  a.position [rad] a.effort [N m]"
    found = read_recording(write(tmp_path, header, *(row.replace(",", "  ") for row in ROWS)))
    assert np.array_equal(found.effort[:, 0], [1, 2, 4])


def test_a_number_only_python_would_read_is_refused_with_line_and_column(tmp_path) -> None:
    with pytest.raises(InvalidRecording, match=r"line 5, column 'a\.effort \[N\]' is '1_000'"):
        read_recording(write(tmp_path, HEADER, *ROWS, "0.3,0.8,1_000"))


def test_two_clocks_in_one_table_are_refused(tmp_path) -> None:
    lines = (f"{row},{i}" for i, row in enumerate(ROWS))
    with pytest.raises(InvalidRecording, match=r"'time \[ms\]': appears twice"):
        read_recording(write(tmp_path, HEADER + ",time [ms]", *lines))


@pytest.mark.parametrize("samples", ["0", "1", "true", "2.5"])
def test_a_period_that_is_no_number_of_samples_is_refused_by_file(tmp_path, samples: str) -> None:
    facts = f'# gough-recording 1 {{"payload": null, "period_samples": {samples}}}'
    with pytest.raises(InvalidRecording, match=r"run\.csv: period_samples"):
        read_recording(write(tmp_path, facts, HEADER, *ROWS))


def test_no_payload_may_be_written_as_none(tmp_path) -> None:
    facts = '# gough-recording 1 {"payload": "none", "period_samples": null}'
    assert read_recording(write(tmp_path, facts, HEADER, *ROWS)).payload is None


def test_parquet_columns_with_one_name_are_refused_and_others_are_named_by_type(tmp_path) -> None:
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path, time, value = tmp_path / "run.parquet", np.arange(4) / 10, np.arange(4.0)
    names = ["time [s]", "a.position [m]", "a.position [m]"]
    parquet.write_table(pa.table([time, value, 2 * value], names=names), path)
    with pytest.raises(
        InvalidRecording, match=r"more than one column is named 'a\.position \[m\]'"
    ):
        read_recording(path)
    dates = pa.array(np.arange(4).astype("datetime64[ms]"))
    parquet.write_table(pa.table([dates, value], names=names[:2]), path)
    assert np.allclose(read_recording(path).time, np.arange(4) / 1000)
    parquet.write_table(pa.table([pa.array(["a", "b", "c", "d"]), value], names=names[:2]), path)
    with pytest.raises(InvalidRecording, match=r"'time \[s\]' holds values of type object"):
        read_recording(path)


def long_npz(folder, **poison: int):
    """A file of 2000 samples with one bad value of each kind named."""
    time = np.arange(2000) / 100
    log = Recording(
        joints=("a", "b"),
        time=time,
        position=np.stack([np.sin(time), np.cos(time)], axis=1),
        position_units=("m", "m"),
    )
    with np.load(log.save(folder / "run.npz")) as stored:
        arrays = {name: stored[name].copy() for name in stored.files}
    for name, sample in poison.items():
        arrays[name][sample] = np.nan
    np.savez(folder / "bad.npz", **arrays)
    return folder / "bad.npz"


@pytest.mark.parametrize("kind", ["position", "time"])
def test_a_bad_sample_of_a_streamed_npz_is_counted_from_the_start_of_the_log(
    tmp_path, kind: str
) -> None:
    path = long_npz(tmp_path, **{kind: 1700})
    for read in (read_recording, lambda path: list(open_recording(path).blocks(500))):
        with pytest.raises(InvalidRecording, match=r"bad\.npz.*nan at sample 1700"):
            read(path)


def test_an_npz_without_samples_is_refused_when_opened(tmp_path) -> None:
    with np.load(long_npz(tmp_path)) as stored:
        arrays = {
            name: stored[name] if name == "facts" else stored[name][:0] for name in stored.files
        }
    np.savez(tmp_path / "none.npz", **arrays)
    with pytest.raises(InvalidRecording, match=r"none\.npz: there are no samples"):
        open_recording(tmp_path / "none.npz")
