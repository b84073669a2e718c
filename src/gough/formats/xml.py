"""XML from strangers: no document types, so no entities and no bombs; bounded in depth and number.

The standard library's expat alone parses. A document type is where entities are declared, inner
ones that grow without end and outer ones that fetch files: no robot needs one, so the first is
refused before anything is expanded.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from xml.parsers import expat

from gough.core.errors import InvalidMechanism

DEEPEST = 200  # elements inside elements: MJCF nests a body for each link of a chain
HUGE = 1e30  # some files write 1e308 for no limit; its square would overflow
MOST = 100_000  # elements; a humanoid with hands has three thousand


class Element:
    """An element, its place in the file, and typed access to its attributes."""

    def __init__(self, tag: str, attributes: dict[str, str], source: str, line: int) -> None:
        self.tag, self.attributes, self.source, self.line = tag, attributes, source, line
        self.children: list[Element] = []
        self.text = ""

    def error(self, message: str) -> InvalidMechanism:
        name = f" '{self.attributes['name']}'" if "name" in self.attributes else ""
        return InvalidMechanism(
            f"{self.source}, line {self.line}, <{self.tag}>{name}: {message}",
            file=self.source,
            line=self.line,
        )

    def get(self, key: str, default: str | None = None) -> str:
        value = self.attributes.get(key, default)
        if value is None:
            raise self.error(f"needs the attribute '{key}'")
        return value

    def numbers(
        self, key: str, default: str | None = None, count: int | None = None
    ) -> tuple[float, ...]:
        """Return an attribute as finite numbers."""
        return self.parse(self.get(key, default), key, count)

    def number(self, key: str, default: float | None = None) -> float:
        return self.numbers(key, None if default is None else repr(default), 1)[0]

    def parse(self, text: str, what: str, count: int | None = None) -> tuple[float, ...]:
        """Return text as finite numbers, so many if said."""
        try:
            values = tuple(float(word) for word in text.split())
        except ValueError:
            values = (math.nan,)
        if not all(map(math.isfinite, values)) or count not in (None, len(values)):
            wanted = (
                "numbers" if count is None else "a number" if count == 1 else f"{count} numbers"
            )
            macro = "; a macro: run xacro first, and read what it writes" if "$" in text else ""
            raise self.error(f"{what} is '{text[:60]}', expected {wanted}{macro}")
        return tuple(min(max(value, -HUGE), HUGE) for value in values)

    def all(self, *tags: str) -> list[Element]:
        return [child for child in self.children if child.tag in tags]

    def inside(self, tag: str) -> list[Element]:
        """Return all children of all children with a tag."""
        return [child for part in self.all(tag) for child in part.children]

    def walk(self) -> Iterator[Element]:
        """Yield this element and all below it."""
        yield self
        for child in self.children:
            yield from child.walk()

    def find(self, tag: str) -> Element | None:
        return next(iter(self.all(tag)), None)

    def need(self, tag: str) -> Element:
        found = self.find(tag)
        if found is None:
            raise self.error(f"needs <{tag}>")
        return found

    def word(self, tag: str, default: str | None = None) -> str:
        found = self.find(tag) if default is not None else self.need(tag)
        return str(default) if found is None else found.text.strip()

    def amount(self, key: str, default: float) -> float:
        """Return a number that is an attribute, as in URDF, or the content of a child, as in
        SDF.
        """
        found = self.find(key)
        return self.number(key, default) if found is None else found.parse(found.text, key, 1)[0]


def parse_xml(text: str, source: str) -> Element:
    """Return the root element of a document."""
    parser = expat.ParserCreate(encoding="utf-8")
    top, count = Element("", {}, source, 0), 0
    stack = [top]

    def fault(message: str) -> InvalidMechanism:
        return InvalidMechanism(
            f"{source}, line {parser.CurrentLineNumber}: {message}", file=source
        )

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal count
        count += 1
        if count > MOST:
            raise fault(f"more than {MOST} elements; is this a robot?")
        if len(stack) > DEEPEST:
            raise fault(f"more than {DEEPEST} elements inside each other")
        stack.append(Element(tag, attributes, source, parser.CurrentLineNumber))
        stack[-2].children.append(stack[-1])

    def data(text: str) -> None:
        stack[-1].text += text

    def doctype(*_: object) -> None:
        raise fault(
            "has a document type, which may declare entities; robot files need none, remove "
            "<!DOCTYPE ...>"
        )

    parser.StartElementHandler, parser.CharacterDataHandler, parser.StartDoctypeDeclHandler = (
        start,
        data,
        doctype,
    )
    parser.EndElementHandler = lambda tag: stack.pop()
    parser.buffer_text = True
    try:
        # the text is decoded already, and some programs write lines above the declaration
        parser.Parse(
            re.sub(r"<\?xml\s[^>]*\?>", "", text, count=1).encode("utf-8", "replace"), True
        )
    except expat.ExpatError as error:
        raise fault(
            f"not well-formed XML: {expat.errors.messages.get(error.code, error)}"
        ) from None
    return top.children[0]
