"""XML from unknown sources: no document types, hence no entities; bounded in depth and number.

Only the expat parser of the standard library is used. Entities are
declared in a document type, inner ones that grow without end and outer
ones that fetch files. No robot needs a document type, so one is refused
before anything is expanded.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from xml.parsers import expat

from gough.core.errors import InvalidMechanism
from gough.core.files import MAX_XML_DEPTH, MAX_XML_ELEMENTS

# some files write 1e308 for no limit; its square would overflow
LARGEST_XML_NUMBER = 1e30


class Element:
    """An element, its place in the file, and typed access to its attributes and children."""

    def __init__(self, tag: str, attributes: dict[str, str], source: str, line: int) -> None:
        self.tag = tag
        self.attributes = attributes
        self.source = source
        self.line = line
        self.children: list[Element] = []
        self.text = ""

    def error(self, message: str) -> InvalidMechanism:
        """Return an error about this element."""
        name = f" '{self.attributes['name']}'" if "name" in self.attributes else ""
        return InvalidMechanism(
            f"{self.source}, line {self.line}, <{self.tag}>{name}: {message}",
            file=self.source,
            line=self.line,
        )

    def get(self, key: str, default: str | None = None) -> str:
        """Return an attribute; raise if it is missing without a default."""
        text = self.attributes.get(key, default)
        if text is None:
            raise self.error(f"needs the attribute '{key}'")
        return text

    def is_true(self, key: str, default: str = "false") -> bool:
        """Return an attribute that is `true` or `false`."""
        return self.get(key, default) == "true"

    def numbers(
        self, key: str, default: str | None = None, count: int | None = None
    ) -> tuple[float, ...]:
        """Return an attribute as finite numbers."""
        return self.parse_numbers(self.get(key, default), key, count)

    def number(self, key: str, default: float | None = None) -> float:
        """Return an attribute as a finite number."""
        return self.numbers(key, None if default is None else repr(default), 1)[0]

    def text_numbers(self, count: int | None = None) -> tuple[float, ...]:
        """Return the content of this element as finite numbers."""
        return self.parse_numbers(self.text, self.tag, count)

    def parse_numbers(self, text: str, label: str, count: int | None = None) -> tuple[float, ...]:
        """Return a text as finite numbers; raise unless there are `count`, if given."""
        try:
            numbers = tuple(float(word) for word in text.split())
        except ValueError:
            numbers = (math.nan,)
        if not all(map(math.isfinite, numbers)) or count not in (
            None,
            len(numbers),
        ):
            expected = "numbers" if count is None else f"{count} numbers"
            if count == 1:
                expected = "a number"
            hint = "; a macro: run xacro first, and read what it writes" if "$" in text else ""
            raise self.error(f"{label} is '{text[:60]}', expected {expected}{hint}")
        bound = LARGEST_XML_NUMBER
        return tuple(min(max(number, -bound), bound) for number in numbers)

    def all(self, *tags: str) -> list[Element]:
        """Return the children with one of these tags."""
        return [child for child in self.children if child.tag in tags]

    def by_name(self, tag: str) -> dict[str, Element]:
        """Return the children with a tag by their names, which must be unique."""
        elements: dict[str, Element] = {}
        for element in self.all(tag):
            name = element.get("name")
            if name in elements:
                raise element.error("is defined twice; rename one of them, and what refers to it")
            elements[name] = element
        return elements

    def inside(self, tag: str) -> list[Element]:
        """Return the children of all children with a tag."""
        elements: list[Element] = []
        for child in self.all(tag):
            elements += child.children
        return elements

    def walk(self) -> Iterator[Element]:
        """Yield this element and all below it."""
        yield self
        for child in self.children:
            yield from child.walk()

    def find(self, tag: str) -> Element | None:
        """Return the first child with a tag, if any."""
        return next(iter(self.all(tag)), None)

    def require(self, tag: str) -> Element:
        """Return the first child with a tag."""
        child = self.find(tag)
        if child is None:
            raise self.error(f"needs <{tag}>")
        return child

    def child_text(self, tag: str, default: str | None = None) -> str:
        """Return the content of a child; raise if it is missing without a default."""
        child = self.find(tag)
        if child is None and default is not None:
            return default
        return self.require(tag).text.strip()

    def quantity(self, key: str, default: float) -> float:
        """Return a number that is an attribute, as in URDF, or a child's content, as in SDF."""
        child = self.find(key)
        if child is None:
            return self.number(key, default)
        return child.text_numbers(1)[0]


class _TreeBuilder:
    """Build elements from the events of a parser."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.count = 0
        self.stack = [Element("", {}, source, 0)]
        self.parser = expat.ParserCreate(encoding="utf-8")
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self.start
        self.parser.EndElementHandler = lambda tag: self.stack.pop()
        self.parser.CharacterDataHandler = self.add_text
        self.parser.StartDoctypeDeclHandler = self.refuse_document_type

    def error(self, message: str) -> InvalidMechanism:
        """Return an error about the current line."""
        return InvalidMechanism(
            f"{self.source}, line {self.parser.CurrentLineNumber}: {message}",
            file=self.source,
        )

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        """Begin an element."""
        self.count += 1
        if self.count > MAX_XML_ELEMENTS:
            raise self.error(f"more than {MAX_XML_ELEMENTS} elements; is this a robot?")
        if len(self.stack) > MAX_XML_DEPTH:
            raise self.error(f"more than {MAX_XML_DEPTH} elements inside each other")
        element = Element(tag, attributes, self.source, self.parser.CurrentLineNumber)
        self.stack[-1].children.append(element)
        self.stack.append(element)

    def add_text(self, text: str) -> None:
        """Add to the content of the current element."""
        self.stack[-1].text += text

    def refuse_document_type(self, *_: object) -> None:
        """Raise at the start of a document type."""
        raise self.error(
            "has a document type, which may declare entities; robot files need none, remove "
            "<!DOCTYPE ...>"
        )


def parse_xml(text: str, source: str) -> Element:
    """Return the root element of a document."""
    builder = _TreeBuilder(source)
    document = builder.stack[0]
    # The text is decoded already, and some programs write lines above
    # the declaration.
    text = re.sub(r"<\?xml\s[^>]*\?>", "", text, count=1)
    try:
        builder.parser.Parse(text.encode("utf-8", "replace"), True)
    except expat.ExpatError as error:
        reason = expat.errors.messages.get(error.code, error)
        raise builder.error(f"not well-formed XML: {reason}") from None
    return document.children[0]
