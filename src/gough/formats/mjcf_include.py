"""`<include>` of MJCF: the content of another file in place of the element, as MuJoCo reads it."""

from __future__ import annotations

from pathlib import Path

from gough.core.errors import InvalidMechanism
from gough.core.files import MAX_ROBOT_BYTES, MAX_XML_ELEMENTS, read_bytes, text_encoding
from gough.formats.xml import Element, parse_xml

INCLUDE_ROOTS = ("mujoco", "mujocoinclude")
MAX_INCLUDED_FILES = 100  # scenes of MuJoCo's menagerie have one to three


def resolve_includes(root: Element, source: str) -> None:
    """Replace every `<include file="...">` below an element by what the file holds.

    Files are looked for beside the model, as MuJoCo does, then beside
    the file that includes them. As in MuJoCo no file is included twice,
    so that files cannot include each other.

    Raises:
        InvalidMechanism: A file is missing, is no MJCF, or is included
            twice.
    """
    _Includes(Path(source)).resolve(root, Path(source).parent)


class _Includes:
    """The files included so far, and how many elements they have."""

    def __init__(self, model: Path) -> None:
        self.folder = model.parent
        self.files = {model.resolve()}
        self.n_elements = 0

    def resolve(self, element: Element, folder: Path) -> None:
        """Replace the includes below an element of a file in a folder."""
        children: list[Element] = []
        for child in element.children:
            if child.tag == "include":
                children += self.content(child, folder)
            else:
                self.resolve(child, folder)
                children.append(child)
        element.children = children

    def content(self, include: Element, folder: Path) -> list[Element]:
        """Return the elements of the file that an element includes."""
        path = self.path(include, folder)
        if path.resolve() in self.files:
            raise include.error(f"includes '{path.name}' a second time; a file is included once")
        self.files.add(path.resolve())
        if len(self.files) > MAX_INCLUDED_FILES:
            raise include.error(f"is one of more than {MAX_INCLUDED_FILES} files")
        content = read_bytes(path, MAX_ROBOT_BYTES, InvalidMechanism)
        try:
            text = content.decode(text_encoding(content))
        except UnicodeDecodeError as error:
            raise include.error(f"'{path.name}' is no text (byte {error.start})") from None
        root = parse_xml(text, str(path))
        if root.tag not in INCLUDE_ROOTS:
            expected = " or ".join(f"<{tag}>" for tag in INCLUDE_ROOTS)
            raise root.error(f"is included by {include.source}; expected {expected}")
        self.n_elements += sum(1 for _ in root.walk())
        if self.n_elements > MAX_XML_ELEMENTS:
            raise include.error(f"more than {MAX_XML_ELEMENTS} elements are included")
        self.resolve(root, path.parent)
        return root.children

    def path(self, include: Element, folder: Path) -> Path:
        """Return the file that an element names."""
        name = include.get("file")
        candidates = [self.folder / name, folder / name]
        for path in candidates:
            if path.is_file():
                return path
        raise include.error(f"there is no file '{name}' beside the model; copy it there")
