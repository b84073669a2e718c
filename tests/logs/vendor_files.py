"""The run of test_doors written by the libraries that the vendors of other formats provide."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import openpyxl
import pyarrow as pa
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2
from mcap.writer import CompressionType, Writer
from mcap_protobuf.schema import build_file_descriptor_set
from nptdms import ChannelObject, TdmsWriter
from pyarrow import parquet
from pyulog import ULog
from test_doors import EFFORT, JOINTS, POSITION, TIME, described

START = 1_700_000_000_123_456_789  # [ns]
STAMPS = [START + round(t * 1e9) for t in TIME]


def as_xlsx(folder: Path) -> dict:
    """A workbook with lines above the table, units below the names, and a sheet of notes."""
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.append(["Trace of the left and right drive"])
    sheet.append([])
    sheet.append(["Zeit", "q1", "q2", "M1", "M2"])
    sheet.append(["s", "rad", "rad", "N m", "N m"])
    for row in zip(TIME, *POSITION.T, *EFFORT.T):
        sheet.append([float(x) for x in row])
    book.create_sheet("notes").append(["recorded on Monday"])
    book.save(folder / "run.xlsx")
    return described("Zeit [s]", ["q1 [rad]", "q2 [rad]"], ["M1 [N m]", "M2 [N m]"])


def as_xlsx_of_two_sheets(folder: Path) -> dict:
    book = openpyxl.Workbook()
    for title, columns in (("pos", POSITION), ("eff", EFFORT)):
        sheet = book.create_sheet(title)
        sheet.append(["t", "a", "b"])
        for row in zip(TIME, *columns.T):
            sheet.append([float(x) for x in row])
    book.save(folder / "run.xlsx")
    effort_time = {"time": {"columns": ["eff/t"], "units": ["s"]}}
    return described("pos/t", ["pos/a", "pos/b"], ["eff/a", "eff/b"], effort_more=effort_time)


def as_tdms(folder: Path) -> dict:
    """Waveforms of one group, in mm and A as LabVIEW labels them."""
    step = {
        "wf_increment": 0.01,
        "wf_start_offset": 0.0,
        "wf_start_time": np.datetime64("2024-03-01T10:00:00.25"),
    }
    channels = []
    for k in range(2):
        units = {"unit_string": "deg"}
        degrees = np.degrees(POSITION[:, k])
        channels.append(ChannelObject("run", f"pos{k}", degrees, properties={**step, **units}))
        channels.append(ChannelObject("run", f"tau{k}", EFFORT[:, k], properties=step))
    with TdmsWriter(folder / "run.tdms") as writer:
        writer.write_segment(channels)
    description = described(
        "run/time [s]", ["run/pos0 [deg]", "run/pos1 [deg]"], ["run/tau0", "run/tau1"]
    )
    description["position"]["unit"] = "deg"
    return description


def joint_fields(k: int) -> dict:
    stamp = {"sec": STAMPS[k] // 10**9, "nsec": STAMPS[k] % 10**9}
    return {
        "stamp": stamp,
        "name": JOINTS,
        "position": POSITION[k].tolist(),
        "effort": EFFORT[k].tolist(),
        "mode": "running",
    }


def mcap_names(topic: str = "/joints") -> tuple[str, list[str], list[str]]:
    positions = [f"{topic}/{joint}.position" for joint in JOINTS]
    return f"{topic}/stamp", positions, [f"{topic}/{joint}.effort" for joint in JOINTS]


def as_mcap_of_json(folder: Path) -> dict:
    with (folder / "run.mcap").open("wb") as handle:
        writer = Writer(handle, compression=CompressionType.ZSTD, chunk_size=4096)
        writer.start(profile="", library="test")
        schema = writer.register_schema("joints", "jsonschema", b'{"type": "object"}')
        channel = writer.register_channel("/joints", "json", schema)
        for k, stamp in enumerate(STAMPS):
            content = json.dumps(joint_fields(k)).encode()
            writer.add_message(channel, stamp + 2_000_000, content, stamp)
        writer.finish()
    return described(*mcap_names())


def joints_message() -> type:
    """Return a protobuf message with a stamp, names, positions and a list of structures."""
    file = descriptor_pb2.FileDescriptorProto(name="joints.proto", package="test", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    drive = file.message_type.add(name="Drive")
    drive.field.add(name="name", number=1, type=9, label=1)
    drive.field.add(name="effort", number=2, type=1, label=1)
    joints = file.message_type.add(name="Joints")
    joints.field.add(
        name="stamp", number=1, type=11, label=1, type_name=".google.protobuf.Timestamp"
    )
    joints.field.add(name="joint_names", number=2, type=9, label=3)
    joints.field.add(name="position", number=3, type=1, label=3)
    joints.field.add(name="drives", number=4, type=11, label=3, type_name=".test.Drive")
    pool = descriptor_pool.DescriptorPool()
    stamp_file = descriptor_pb2.FileDescriptorProto()
    timestamp_pb2.DESCRIPTOR.CopyToProto(stamp_file)
    pool.Add(stamp_file)
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("test.Joints"))


def as_mcap_of_protobuf(folder: Path) -> dict:
    message_type = joints_message()
    with (folder / "run.mcap").open("wb") as handle:
        writer = Writer(handle, compression=CompressionType.LZ4)
        writer.start(profile="", library="test")
        content = build_file_descriptor_set(message_type).SerializeToString()
        schema = writer.register_schema("test.Joints", "protobuf", content)
        channel = writer.register_channel("/joints", "protobuf", schema)
        for k, stamp in enumerate(STAMPS):
            message = message_type(joint_names=JOINTS, position=POSITION[k])
            message.stamp.seconds = stamp // 10**9
            message.stamp.nanos = stamp % 10**9
            for joint, effort in zip(JOINTS, EFFORT[k]):
                message.drives.add(name=joint, effort=effort)
            writer.add_message(channel, stamp, message.SerializeToString(), stamp)
        writer.finish()
    positions = [f"/joints/{joint}.position" for joint in JOINTS]
    return described(
        "/joints/stamp", positions, [f"/joints/{joint}.drives.effort" for joint in JOINTS]
    )


def as_mcap_of_ros_without_profile(folder: Path) -> dict:
    """Messages of ROS in a file that does not say so, as other writers than ROS make them."""
    from rosbags.typesys import Stores, get_typestore

    store = get_typestore(Stores.LATEST)
    kind = "sensor_msgs/msg/JointState"
    definition, _ = store.generate_msgdef(kind, ros_version=2)
    types = store.types
    with (folder / "run.mcap").open("wb") as handle:
        writer = Writer(handle, compression=CompressionType.NONE)
        writer.start(profile="", library="test")
        schema = writer.register_schema(kind, "ros2msg", definition.encode())
        channel = writer.register_channel("/joints", "cdr", schema)
        for k in reversed(range(len(STAMPS))):  # the file need not be in order
            now = STAMPS[k]
            stamp = types["builtin_interfaces/msg/Time"](sec=now // 10**9, nanosec=now % 10**9)
            message = types[kind](
                header=types["std_msgs/msg/Header"](stamp=stamp, frame_id=""),
                name=JOINTS,
                position=POSITION[k].copy(),
                velocity=np.zeros(0),
                effort=EFFORT[k].copy(),
            )
            writer.add_message(channel, now, bytes(store.serialize_cdr(message, kind)), now)
        writer.finish()
    stamp_name, positions, efforts = mcap_names()
    return described(stamp_name.replace("stamp", "header.stamp"), positions, efforts)


def as_json_lines(folder: Path) -> dict:
    lines = []
    for k, t in enumerate(TIME):
        arm = {"q": POSITION[k].tolist(), "i": EFFORT[k].tolist(), "state": "on"}
        lines.append(json.dumps({"t": t, "arm": arm}))
    (folder / "run.jsonl").write_text("\n".join(lines) + "\n")
    return described("t", ["arm.q[1]", "arm.q[2]"], ["arm.i[1]", "arm.i[2]"])


def as_rsi(folder: Path) -> dict:
    """Messages as a KUKA controller sends them, with decimals as it writes them."""
    lines = []
    for k, t in enumerate(TIME):
        a = " ".join(f'A{j + 1}="{np.degrees(q):.12f}"' for j, q in enumerate(POSITION[k]))
        m = " ".join(f'A{j + 1}="{i:.12f}"' for j, i in enumerate(EFFORT[k]))
        lines.append(
            f'<Rob Type="KUKA"><RIst X="0.0" Y="1.0" Z="2.0" A="0" B="0" C="0"/>'
            f'<AIPos {a}/><MACur {m}/><Delay D="0"/><IPOC>{4208163634 + round(1e3 * t)}</IPOC></Rob>'
        )
    (folder / "run.xml").write_text("\n".join(lines))
    description = described("IPOC", ["AIPos.A1 [deg]", "AIPos.A2 [deg]"], ["MACur.A1", "MACur.A2"])
    description["position"]["unit"] = "deg"
    return description


def as_ulog(folder: Path) -> dict:
    """Two topics with the clock of the flight controller, written by PX4's own library."""
    log = ULog(None)
    log._start_timestamp = 5_000_000
    stamps = 5_000_000 + np.round(1e6 * TIME).astype(np.uint64)
    for number, (name, columns) in enumerate(
        (("motor_position", POSITION), ("motor_torque", EFFORT))
    ):
        fields = [("uint64_t", 0, "timestamp"), ("double", 2, "value")]
        log._message_formats[name] = _ulog_format(name, fields)
        log._data_list.append(_ulog_data(name, number, stamps, columns))
    log.write_ulog(str(folder / "run.ulg"))
    efforts = {"time": {"columns": ["motor_torque_0/timestamp"], "units": ["s"]}}
    return described(
        "motor_position_0/timestamp",
        ["motor_position_0/value[0]", "motor_position_0/value[1]"],
        ["motor_torque_0/value[0]", "motor_torque_0/value[1]"],
        effort_more=efforts,
    )


def _ulog_format(name: str, fields: list) -> object:
    made = object.__new__(ULog.MessageFormat)
    made.name = name
    made.fields = fields
    return made


def _ulog_data(name: str, number: int, stamps: np.ndarray, columns: np.ndarray) -> object:
    made = object.__new__(ULog.Data)
    made.name = name
    made.msg_id = number
    made.multi_id = 0
    made.timestamp_idx = 0
    made.field_data = [
        ULog._FieldData("timestamp", "uint64_t"),
        ULog._FieldData("value[0]", "double"),
        ULog._FieldData("value[1]", "double"),
    ]
    made.data = {"timestamp": stamps, "value[0]": columns[:, 0], "value[1]": columns[:, 1]}
    return made


def as_lerobot(folder: Path, version: int = 3) -> dict:
    """A dataset of three episodes, of which the second is the run; images are left out."""
    names = {"motors": ["left", "right"]}
    features = {
        "observation.state": {"dtype": "float32", "shape": [2], "names": names},
        "action": {"dtype": "float32", "shape": [2], "names": None},
        "observation.images.top": {
            "dtype": "video",
            "shape": [3, 48, 64],
            "names": ["c", "h", "w"],
        },
        "timestamp": {"dtype": "float32", "shape": [1], "names": None},
        "frame_index": {"dtype": "int64", "shape": [1], "names": None},
        "episode_index": {"dtype": "int64", "shape": [1], "names": None},
    }
    pattern = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
    facts = {
        "codebase_version": f"v{version}.0",
        "total_episodes": 3,
        "fps": 100,
        "data_path": pattern,
        "features": features,
    }
    dataset = folder / "dataset"
    (dataset / "meta").mkdir(parents=True)
    (dataset / "meta/info.json").write_text(json.dumps(facts))
    chunk = dataset / "data/chunk-000"
    chunk.mkdir(parents=True)
    episodes = [_episode(k, POSITION if k == 1 else -POSITION) for k in range(3)]
    if version == 3:
        parquet.write_table(pa.concat_tables(episodes), chunk / "file-000.parquet")
    else:
        for k, episode in enumerate(episodes):
            parquet.write_table(episode, chunk / f"episode_{k:06d}.parquet")
    positions = ["observation.state.left", "observation.state.right"]
    return described("timestamp", positions, ["action[1]", "action[2]"], episode=1)


def as_lerobot_2(folder: Path) -> dict:
    return as_lerobot(folder, version=2)


def _episode(number: int, position: np.ndarray) -> pa.Table:
    """Return an episode in doubles: float32, as LeRobot stores numbers, would hide errors."""
    n = len(TIME)
    return pa.table(
        {
            "observation.state": pa.FixedSizeListArray.from_arrays(pa.array(position.ravel()), 2),
            "action": pa.array(EFFORT.tolist()),
            "timestamp": TIME,
            "frame_index": np.arange(n),
            "episode_index": np.full(n, number),
        }
    )


VENDOR_DOORS = [
    as_xlsx,
    as_xlsx_of_two_sheets,
    as_tdms,
    as_mcap_of_json,
    as_mcap_of_protobuf,
    as_mcap_of_ros_without_profile,
    as_json_lines,
    as_rsi,
    as_ulog,
    as_lerobot,
    as_lerobot_2,
]
