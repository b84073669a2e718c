"""Index of the logs whose statistics a folder keeps, as an SQLite file."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from types import TracebackType

from gough.core.errors import OutputError

INDEX_FILE = "index.sqlite"
# time to wait for another process that writes the index [s]
INDEX_PATIENCE = 30.0
INDEX_TABLE = """
create table if not exists logs (path text primary key, stamp text, hash text) without rowid
"""


class LogIndex:
    """Sizes and times of change of logs, and the hashes of their contents, by absolute path.

    The index only saves reading logs again: one that is damaged is
    begun anew. A log is in it as soon as it was added, also if the
    process ends afterwards.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / INDEX_FILE
        try:
            self._connection = self._open()
        except sqlite3.DatabaseError:
            self._path.unlink(missing_ok=True)
            try:
                self._connection = self._open()
            except sqlite3.Error as error:
                raise self._not_written(error) from None

    def _open(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self._path,
            timeout=INDEX_PATIENCE,
            isolation_level=None,
            check_same_thread=False,
        )
        # not flushed to the disk each time: what a power failure
        # damages is begun anew
        connection.execute("pragma synchronous = off")
        connection.execute(INDEX_TABLE)
        return connection

    def __enter__(self) -> LogIndex:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._connection.close()

    def get(self, path: str) -> tuple[str, str]:
        """Return stamp and hash of a log; empty if it is not known."""
        query = "select stamp, hash from logs where path = ?"
        try:
            answer = self._connection.execute(query, (_as_text(path),))
            row = answer.fetchone()
        except sqlite3.Error:
            return "", ""
        return ("", "") if row is None else (str(row[0]), str(row[1]))

    def add(self, path: str, stamp: str, digest: str) -> None:
        """Keep stamp and hash of a log.

        Raises:
            OutputError: The index cannot be written, because the disk
                is full for example.
        """
        statement = "insert or replace into logs values (?, ?, ?)"
        try:
            self._connection.execute(statement, (_as_text(path), stamp, digest))
        except sqlite3.Error as error:
            raise self._not_written(error) from None

    def _not_written(self, error: Exception) -> OutputError:
        return OutputError(f"cannot write '{self._path}': {error}; is the disk full?")


def _as_text(path: str) -> str:
    """Return a path as SQLite keeps it: bytes that are no UTF-8 are escaped."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")
