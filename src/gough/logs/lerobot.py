"""Reader of LeRobot datasets, versions 2 and 3: folders of Parquet files with many episodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gough.core.display import import_optional, join_names
from gough.core.documents import parse_json
from gough.core.errors import InvalidInput, InvalidRecording
from gough.core.files import MAX_JSON_CHARACTERS, Budget, read_text, reading
from gough.logs.array_tables import array_table
from gough.logs.arrow import arrow_values, check_parquet
from gough.logs.description import Description
from gough.logs.messages import refused
from gough.logs.tables import Table, cut

DATASET_FACTS = "meta/info.json"  # inside the folder of a dataset
EPISODE_COLUMN = "episode_index"
# Types of features that are numbers; others are images, videos and
# texts.
LEROBOT_NUMBERS = ("float", "int", "uint", "bool")


def is_dataset(path: Path) -> bool:
    """Return True for the folder of a LeRobot dataset."""
    return (path / DATASET_FACTS).is_file()


def lerobot_blocks(path: Path, size: int, description: Description | None) -> Iterator[Table]:
    """Yield the samples of one episode of a dataset.

    The description says which episode; a dataset of one needs none.
    Entries of a feature are named as the dataset names them,
    `observation.state.elbow`, or counted, `observation.state[1]`.
    """
    features, n_episodes = _facts(path)
    episode = description.episode if description is not None else None
    if episode is None and n_episodes == 1:
        episode = 0
    if episode is None or not 0 <= episode < n_episodes:
        given = "" if episode is None else f", not {episode}"
        raise refused(
            path.name,
            f"the dataset has {n_episodes} episodes, each a log: write one of them, from 0 to "
            f"{n_episodes - 1}{given}, into the description: episode = 0",
            episodes=n_episodes,
        )
    files = sorted((path / "data").glob("*/*.parquet"))
    for file in files:
        table = _episode(path, file, features, episode)
        if table is not None:
            yield from cut(table, size)
            return
    names = join_names([file.relative_to(path).as_posix() for file in files])
    raise refused(path.name, f"there are no samples of episode {episode} in {names or 'data'}")


def _facts(path: Path) -> tuple[dict[str, Mapping[str, Any]], int]:
    """Return the features of a dataset that are numbers, and how many episodes it has."""
    source = f"{path.name}/{DATASET_FACTS}"
    try:
        facts = parse_json(read_text(path / DATASET_FACTS, MAX_JSON_CHARACTERS))
        features = {}
        for name, about in facts["features"].items():
            if about["dtype"].startswith(LEROBOT_NUMBERS):
                features[name] = about
        return features, int(facts["total_episodes"])
    except (InvalidInput, KeyError, TypeError, AttributeError, ValueError) as error:
        raise InvalidRecording(
            f"{source} is not that of a LeRobot dataset ({type(error).__name__}: {error}); "
            "expected features and total_episodes",
            source=source,
        ) from error


def _episode(path: Path, file: Path, features: Mapping[str, Any], episode: int) -> Table | None:
    """Return the samples of an episode, None if a file of the dataset has none of them."""
    parquet = import_optional("pyarrow.parquet", "parquet")
    source = f"{path.name}/{file.relative_to(path).as_posix()}"
    budget = Budget(source, file.stat().st_size, InvalidRecording)
    with reading(source, "Parquet", InvalidRecording):
        metadata = parquet.read_metadata(file)
        if not _may_hold(metadata, episode):
            return None
        check_parquet(metadata, budget)
        stored = metadata.schema.to_arrow_schema().names
        known = [name for name in features if name in stored]
        wanted = [(EPISODE_COLUMN, "==", episode)]
        samples = parquet.read_table(file, columns=known, filters=wanted)
        samples.validate(full=True)
        if not samples.num_rows:
            return None
        columns: dict[str, Any] = {}
        for name in known:
            values = arrow_values(samples.column(name).combine_chunks())
            columns |= _named_entries(name, features[name].get("names"), values)
        return array_table(source, columns, budget)


def _may_hold(metadata: Any, episode: int) -> bool:
    """Return whether a file may hold an episode, by the ranges of its columns."""
    for group in range(metadata.num_row_groups):
        row_group = metadata.row_group(group)
        for k in range(row_group.num_columns):
            column = row_group.column(k)
            if column.path_in_schema != EPISODE_COLUMN:
                continue
            limits = column.statistics
            if limits is None or not limits.has_min_max:
                return True
            if limits.min <= episode <= limits.max:
                return True
    return False


def _named_entries(feature: str, names: Any, values: Any) -> dict[str, Any]:
    """Return the entries of a feature by name: as the dataset names them, or as a whole."""
    if isinstance(names, Mapping) and len(names) == 1:
        names = next(iter(names.values()))
    width = values.shape[1] if getattr(values, "ndim", 0) == 2 else 0
    if not isinstance(names, list) or len(set(map(str, names))) != width or len(names) != width:
        return {feature: values}
    return {f"{feature}.{name}": values[:, k] for k, name in enumerate(names)}
