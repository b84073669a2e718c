"""Reader of HDF5 files, and of MATLAB files of version 7.3, which are such."""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gough.core.display import import_optional
from gough.core.errors import InvalidRecording
from gough.core.files import MAX_STRUCTURE_DEPTH, Budget, reading
from gough.logs.array_tables import MAX_LISTED_OBJECTS, array_table, log_budget
from gough.logs.tables import Table

# What to save instead of objects of MATLAB, by their class; x is the
# variable.
MATLAB_SUBSTITUTES = {
    "table": "s = table2struct(x, 'ToScalar', true)",
    "timetable": "s = table2struct(timetable2table(x, 'ConvertRowTimes', false), 'ToScalar', "
    "true); r = x.Properties.RowTimes; s.time = seconds(r - r(1))",
    "datetime": "t = seconds(x - x(1))",
    "duration": "t = seconds(x)",
}
OTHER_SUBSTITUTE = "t = x.Time; q = squeeze(x.Data)"


def read_hdf5(path: Path) -> Table:
    """Read the numbers of an HDF5 file; `log/q` is named `log.q`.

    Also of MATLAB 7.3, which stores matrices transposed.
    """
    h5py = import_optional("h5py", "hdf5")
    budget = log_budget(path)
    visited: set[int] = set()

    def read(node: Any, depth: int = 0) -> Any:
        """Return the content of a group or of a dataset."""
        budget.take_object(depth)
        if isinstance(node, h5py.Group) and depth < MAX_STRUCTURE_DEPTH:
            address = h5py.h5o.get_info(node.id).addr
            if address in visited:
                return np.array("a link to a group that was read already")
            visited.add(address)
            return {name: member(node, name, depth) for name in node if not name.startswith("#")}
        if not isinstance(node, h5py.Dataset):
            return np.array("no data")
        references = node.dtype.kind == "O" and h5py.check_ref_dtype(node.dtype)
        if references and node.size < MAX_LISTED_OBJECTS and depth < MAX_STRUCTURE_DEPTH:
            return [read(node.file[reference], depth + 1) for reference in np.ravel(node[()])]
        return _hdf5_dataset(node, budget)

    def member(group: Any, name: str, depth: int) -> Any:
        """Return the content of a member of a group, unless it is in another file."""
        if isinstance(group.get(name, getlink=True), h5py.ExternalLink):
            return np.array("a link to another file, which is not followed")
        return read(group[name], depth + 1)

    with reading(path.name, "HDF5 or MATLAB file", InvalidRecording), h5py.File(path) as file:
        return array_table(path.name, read(file), budget)


def matlab_object(class_name: str) -> NDArray[Any]:
    """Return what is said of an object, which only MATLAB can read: its class, what to save."""
    name = class_name or "object"
    instead = MATLAB_SUBSTITUTES.get(name, f"e.g. {OTHER_SUBSTITUTE}")
    return np.array(f"a {name} of MATLAB, which only MATLAB can read: save its numbers, {instead}")


def _hdf5_dataset(node: Any, budget: Budget) -> Any:
    """Return the numbers of a dataset, or what it holds instead as text."""
    if "MATLAB_object_decode" in node.attrs:
        class_name = node.attrs.get("MATLAB_class", b"")
        return matlab_object(bytes(class_name).decode("latin-1"))
    if node.external or node.is_virtual:
        return np.array("numbers of another file, which is not opened")
    letters = node.attrs.get("MATLAB_class") == b"char"
    if not letters and node.dtype.kind not in "fiubV":
        return np.array("text")
    chunk_bytes = prod(node.chunks or (0,)) * node.dtype.itemsize  # is unpacked whole
    budget.take_bytes(max(node.nbytes, chunk_bytes), f"'{node.name}'")
    if letters and node.dtype.kind == "u" and node.size < MAX_LISTED_OBJECTS:
        return np.array("".join(map(chr, np.ravel(node[()]))))
    if letters:
        return np.array("text")
    numbers = node[()]
    if numbers.dtype.names:
        return {name: numbers[name] for name in numbers.dtype.names}
    return np.squeeze(numbers.T) if "MATLAB_class" in node.attrs else numbers
