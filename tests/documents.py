"""The README and the guides as data: their fences, code spans, links and tables."""

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCUMENTS = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]]+\]\(([^)\s]+)\)")
_CODE = re.compile(r"`([^`\n]+)`")


@dataclass(frozen=True, kw_only=True)
class Fence:
    language: str
    text: str


@dataclass(frozen=True, kw_only=True)
class Command:
    """A command as a reader would paste it, and the lines that the document shows of what it prints."""

    text: str
    shown: Sequence[str] = ()


def fences(document: Path, *languages: str) -> Iterator[Fence]:
    for language, text in _FENCE.findall(document.read_text(encoding="utf-8")):
        if language in languages:
            yield Fence(language=language, text=text)


def prose(document: Path) -> str:
    """What is not in a fence."""
    return _FENCE.sub("", document.read_text(encoding="utf-8"))


def links(document: Path) -> Sequence[str]:
    return _LINK.findall(prose(document))


def code_spans(document: Path) -> Sequence[str]:
    return _CODE.findall(prose(document))


def anchors(document: Path) -> set[str]:
    """As GitHub makes them of headings."""
    headings = re.findall(r"^#+ (.+)$", prose(document), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def scripts(document: Path) -> Iterator[Command]:
    """The commands of `sh` fences, one a line."""
    for fence in fences(document, "sh"):
        for line in re.sub(r"\\\n\s*", "", fence.text).splitlines():
            yield Command(text=line.partition("  #")[0].strip())


def sessions(document: Path) -> Iterator[Command]:
    """The commands of `console` fences, which stand behind `$ `, with what is shown below each.

    A command goes on on the next line after a backslash, and while a quote is open.
    """
    for fence in fences(document, "console"):
        for part in re.split(r"^\$ ", fence.text, flags=re.MULTILINE)[1:]:
            lines = part.splitlines()
            taken = 1
            while not _is_whole("\n".join(lines[:taken])):
                taken += 1
            yield Command(text="\n".join(lines[:taken]).replace("\\\n", ""), shown=lines[taken:])


def _is_whole(command: str) -> bool:
    try:
        shlex.split(command)
    except ValueError:  # a quote is open
        return False
    return not command.endswith("\\")


def table(document: Path, heading: str) -> Sequence[Sequence[str]]:
    """The cells of the tables whose first heading this is, without their heads."""
    text = document.read_text(encoding="utf-8")
    found = re.findall(rf"^\| {re.escape(heading)} \|.*\n\|[-|]+\n((?:\|.*\n)+)", text, re.MULTILINE)
    return [[cell.strip() for cell in row.strip("|").split("|")] for rows in found for row in rows.splitlines()]
