"""Reader of ULog files of PX4."""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np

from gough.core.arrays import FloatArray
from gough.core.display import import_optional
from gough.core.errors import InvalidRecording
from gough.core.files import reading
from gough.logs.array_tables import log_budget
from gough.logs.messages import log_notice, refused
from gough.logs.tables import Table

ULOG_CLOCK = "timestamp"  # field of every topic [us]
MICROSECOND = 1e-6  # [s]


def read_ulog(path: Path) -> Table:
    """Read the topics of a ULog file; a column is `topic_0/field`, 0 being the instance.

    Entries of arrays keep their names, `output[0]`. `topic_0/timestamp`
    is in seconds after the start of the log.
    """
    pyulog = import_optional("pyulog", "ulog")
    budget = log_budget(path)
    columns: dict[str, FloatArray] = {}
    seconds: set[str] = set()
    notices = []
    with (
        reading(path.name, "ULog", InvalidRecording),
        path.open("rb") as handle,
        redirect_stdout(io.StringIO()),
    ):
        log = pyulog.ULog(handle)
        for topic in log.data_list:
            for field, samples in topic.data.items():
                budget.take_columns(1)
                budget.take_bytes(8 * len(samples), f"'{topic.name}'")
                name = f"{topic.name}_{topic.multi_id}/{field}"
                columns[name] = np.asarray(samples, dtype=float)
                if field == ULOG_CLOCK:
                    first = np.uint64(log.start_timestamp)
                    columns[name] = (samples - first).astype(np.int64) * MICROSECOND
                    seconds.add(name)
        if log.file_corruption:
            text = "the file is damaged; what could be read of it was"
            notices.append(log_notice("truncated", path.name, text, level="warning"))
    if not columns:
        raise refused(path.name, "there are no numbers in this file")
    return Table(
        source=path.name,
        columns=columns,
        seconds=frozenset(seconds),
        notices=tuple(notices),
    )
