"""Reader of the XML that KUKA controllers send over the Robot Sensor Interface (RSI).

A controller sends one message `<Rob>` each cycle; programs that log it
write them one after the other.
"""

from __future__ import annotations

import re
from pathlib import Path
from xml.parsers import expat

from gough.core.errors import InvalidRecording
from gough.core.files import MAX_XML_DEPTH, Budget, read_bytes, reading, text_encoding
from gough.logs.array_tables import log_budget
from gough.logs.message_columns import MessageColumns, Stamp
from gough.logs.messages import refused
from gough.logs.tables import Table

RSI_MESSAGE = "Rob"  # element of a message from the robot
RSI_CLOCK = "IPOC"  # element with the time of the message [ms]
MILLISECOND = 1e-3  # [s]
# Units that KUKA's manual states, of attributes or of elements and
# attributes.
RSI_UNITS: dict[str, str] = {}
for _tag in ("AIPos", "ASPos"):
    RSI_UNITS |= {f"{_tag}.A{k}": "deg" for k in range(1, 7)}
for _tag in ("RIst", "RSol"):
    RSI_UNITS |= {f"{_tag}.{axis}": "mm" for axis in "XYZ"}
    RSI_UNITS |= {f"{_tag}.{axis}": "deg" for axis in "ABC"}
_DECLARATION = re.compile(r"<\?xml\s[^>]*\?>")


def read_rsi(path: Path) -> Table:
    """Read messages of KUKA's RSI; a column is `AIPos.A1 [deg]`, the times are `IPOC`, in s."""
    budget = log_budget(path)
    content = read_bytes(path, budget.max_bytes, InvalidRecording)
    with reading(path.name, "messages of KUKA's RSI", InvalidRecording):
        text = content.decode(text_encoding(content[: 2**16]))
        text = _DECLARATION.sub("", text.removeprefix("\ufeff"))
        parser = _MessageParser(budget)
        parser.parse(text)
    if not parser.n_messages:
        raise refused(
            path.name,
            f"there is no <{RSI_MESSAGE}>; an XML log is read if it holds the messages of KUKA's "
            "RSI",
        )
    return parser.columns.table()


class _MessageParser:
    """Collect the numbers of messages as elements begin and end."""

    def __init__(self, budget: Budget) -> None:
        self.columns = MessageColumns(budget)
        self.budget = budget
        self.n_messages = 0
        self.elements: list[str] = []  # that are open
        self.in_message = -1  # level of the open message, -1 outside of one
        self.numbers: dict[str, float] = {}
        self.text = ""

    def parse(self, text: str) -> None:
        """Parse messages one after the other, or inside of one element."""
        parser = expat.ParserCreate(encoding="utf-8")
        parser.buffer_text = True
        parser.StartElementHandler = self.start
        parser.EndElementHandler = self.end
        parser.CharacterDataHandler = self.add_text
        parser.StartDoctypeDeclHandler = _refuse_document_type
        parser.Parse(b"<log>", False)
        parser.Parse(text.encode("utf-8", "replace"), False)
        parser.Parse(b"</log>", True)

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        """Begin an element."""
        if len(self.elements) > MAX_XML_DEPTH:
            raise ValueError(f"more than {MAX_XML_DEPTH} elements inside each other")
        if tag == RSI_MESSAGE and self.in_message < 0:
            self.in_message = len(self.elements)
            self.numbers = {}
            self.budget.check_time()
        elif self.in_message >= 0:
            for key, text in attributes.items():
                self.add_number(f"{self.path(tag)}.{key}", text)
        self.elements.append(tag)
        self.text = ""

    def add_text(self, text: str) -> None:
        """Add to the content of the current element."""
        self.text += text

    def end(self, tag: str) -> None:
        """End an element; that of a message adds a row."""
        self.elements.pop()
        if self.in_message < 0:
            return
        if len(self.elements) == self.in_message:
            self.columns.add("", self.numbers)
            self.n_messages += 1
            self.in_message = -1
        elif self.text.strip():
            self.add_number(self.path(tag), self.text)
        self.text = ""

    def path(self, tag: str) -> str:
        """Return the elements of the message that a tag is inside of, and the tag."""
        return ".".join([*self.elements[self.in_message + 1 :], tag])

    def add_number(self, name: str, text: str) -> None:
        """Add a number to the message; texts are left out."""
        try:
            number = float(text)
        except ValueError:
            return
        if name == RSI_CLOCK:
            self.numbers[name] = Stamp(number * MILLISECOND)
        elif name in RSI_UNITS:
            self.numbers[f"{name} [{RSI_UNITS[name]}]"] = number
        else:
            self.numbers[name] = number


def _refuse_document_type(*_: object) -> None:
    raise ValueError("it has a document type, which may declare entities")
