"""Reader of MCAP files with messages in JSON, protobuf or of ROS."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from gough.core.display import import_optional
from gough.core.documents import parse_json
from gough.core.errors import InvalidInput, InvalidRecording
from gough.core.files import Budget, reading
from gough.logs.array_tables import log_budget
from gough.logs.message_columns import MessageColumns, message_numbers, stamp_after
from gough.logs.ros_bags import read_bag, ros_fields
from gough.logs.tables import Table

ROS_PROFILE = "ros2"  # of files that rosbags reads, from their index
# mark, opcode, length of the header, length of the profile
MCAP_HEADER = struct.Struct("<8sBQI")
MAX_PROFILE_BYTES = 64
PROTOBUF_TIME = "google.protobuf.Timestamp"
PROTOBUF_DURATION = "google.protobuf.Duration"

Decoder = Callable[[bytes, int], Any]
"""(message, start of the file in ns) -> its numbers, texts, lists and mappings."""


def read_mcap(path: Path) -> Table:
    """Read the numeric fields of all topics of an MCAP file.

    Names and times are those of `read_bag`, which reads the files of
    ROS 2. Topics in other encodings are listed as not read.
    """
    if _profile(path) == ROS_PROFILE:
        return read_bag(path)
    import_optional("mcap", "mcap")
    budget = log_budget(path)
    columns = MessageColumns(budget)
    with reading(path.name, "MCAP", InvalidRecording), path.open("rb") as handle:
        messages = list(_messages(handle, budget))
        start = min((message.log_time for _, _, message in messages), default=0)
        decoders: dict[int, Decoder | None] = {}
        for channel, schema, message in messages:
            topic = channel.topic
            if channel.id not in decoders:
                decoders[channel.id] = _decoder(channel, schema)
            decode = decoders[channel.id]
            if decode is None:
                columns.unread[topic] = f"messages in '{channel.message_encoding}'"
                continue
            budget.check_time()
            numbers = dict(message_numbers(decode(message.data, start), start))
            if numbers:
                columns.add(topic, {"time": stamp_after(message.log_time, start), **numbers})
            else:
                columns.unread[topic] = "messages without numbers"
    return columns.table(ordered_by="time")


def _profile(path: Path) -> str:
    """Return the profile of an MCAP file, "" if it states none."""
    with path.open("rb") as handle:
        head = handle.read(MCAP_HEADER.size)
        if len(head) < MCAP_HEADER.size:
            return ""
        length = MCAP_HEADER.unpack(head)[-1]
        return handle.read(min(length, MAX_PROFILE_BYTES)).decode("utf-8", "replace")


def _messages(handle: Any, budget: Budget) -> Iterator[tuple[Any, Any, Any]]:
    """Yield each message with its channel and its schema, None without one."""
    records = import_optional("mcap.records", "mcap")
    schemas: dict[int, Any] = {}
    channels: dict[int, Any] = {}
    for record in _records(handle, budget):
        if isinstance(record, records.Schema):
            schemas[record.id] = record
        elif isinstance(record, records.Channel):
            channels[record.id] = record
        elif isinstance(record, records.Message):
            channel = channels[record.channel_id]
            yield channel, schemas.get(channel.schema_id), record


def _records(handle: Any, budget: Budget) -> Iterator[Any]:
    """Yield the records of a file, those in chunks too; no chunk unpacks beyond the budget."""
    records = import_optional("mcap.records", "mcap")
    stream_reader = import_optional("mcap.stream_reader", "mcap")
    reader = stream_reader.StreamReader(
        handle, emit_chunks=True, record_size_limit=budget.max_bytes
    )
    for record in reader.records:
        if isinstance(record, records.Chunk):
            budget.take_bytes(record.uncompressed_size, "a chunk")
            record.data = _unpacked(record)
            record.compression = ""
            yield from stream_reader.breakup_chunk(record)
        else:
            budget.take_object(0)
            yield record


def _unpacked(chunk: Any) -> bytes:
    """Return the content of a chunk, which may be no longer than it states."""
    limit = chunk.uncompressed_size
    if chunk.compression == "zstd":
        zstandard = import_optional("zstandard", "mcap")
        stream = zstandard.ZstdDecompressor().stream_reader(io.BytesIO(chunk.data))
        content = stream.read(limit + 1)
    elif chunk.compression == "lz4":
        frames = import_optional("lz4.frame", "mcap")
        content = frames.LZ4FrameDecompressor().decompress(chunk.data, max_length=limit + 1)
    elif chunk.compression:
        raise ValueError(f"a chunk is compressed by '{chunk.compression}', expected zstd or lz4")
    else:
        content = chunk.data
    if len(content) != limit:
        raise ValueError(f"a chunk states {limit} bytes and holds others")
    return bytes(content)


def _decoder(channel: Any, schema: Any) -> Decoder | None:
    """Return the decoder of the messages of a channel; None for an unknown encoding."""
    encoding = channel.message_encoding
    if encoding == "json":
        return _json_fields
    if encoding == "protobuf" and schema is not None:
        factory = import_optional("mcap_protobuf.decoder", "mcap").DecoderFactory()
        parse = factory.decoder_for(encoding, schema)
        if parse is None:
            return None
        return lambda content, start: protobuf_fields(parse(content), start)
    if encoding in ("cdr", "ros1") and schema is not None:
        return _ros_decoder(encoding, schema)
    return None


def _json_fields(content: bytes, start: int) -> Any:
    """Return a message in JSON."""
    try:
        return parse_json(content.decode())
    except InvalidInput as error:
        raise ValueError(str(error)) from error


def _ros_decoder(encoding: str, schema: Any) -> Decoder | None:
    """Return the decoder of messages of ROS; None if their schema is not one of ROS."""
    types = import_optional("rosbags.typesys", "ros")
    if schema.encoding not in ("ros1msg", "ros2msg"):
        return None
    name = schema.name if "/msg/" in schema.name else schema.name.replace("/", "/msg/", 1)
    store = types.get_typestore(types.Stores.EMPTY)
    store.register(types.get_types_from_msg(schema.data.decode(), name))
    parse = store.deserialize_cdr if encoding == "cdr" else store.deserialize_ros1
    return lambda content, start: ros_fields(parse(content, name), start)


def protobuf_fields(message: Any, start: int) -> Any:
    """Return a message of protobuf as numbers, texts, lists and mappings.

    Args:
        message: Of protobuf's library.
        start: Of the file; stamps are counted from it. [ns]
    """
    descriptor = message.DESCRIPTOR
    if descriptor.full_name == PROTOBUF_TIME:
        return stamp_after(message.seconds * 10**9 + message.nanos, start)
    if descriptor.full_name == PROTOBUF_DURATION:
        return message.seconds + message.nanos * 1e-9
    fields: dict[str, Any] = {}
    for field in descriptor.fields:
        content = getattr(message, field.name)
        kind = field.message_type
        if kind is not None and kind.GetOptions().map_entry:
            of_entry = kind.fields_by_name["value"]
            entries = [(str(key), content[key]) for key in content]
            fields[field.name] = {key: _protobuf_entry(of_entry, x, start) for key, x in entries}
        elif _is_repeated(field):
            fields[field.name] = [_protobuf_entry(field, entry, start) for entry in content]
        elif kind is None or message.HasField(field.name):
            fields[field.name] = _protobuf_entry(field, content, start)
    return fields


def _is_repeated(field: Any) -> bool:
    """Return True for a list; protobuf before version 6 had labels instead."""
    if hasattr(field, "is_repeated"):
        return bool(field.is_repeated)
    return bool(field.label == field.LABEL_REPEATED)


def _protobuf_entry(field: Any, entry: Any, start: int) -> Any:
    """Return one entry of a field."""
    return entry if field.message_type is None else protobuf_fields(entry, start)
