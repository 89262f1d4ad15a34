"""Text that every database can hold.

SQLite refuses lone surrogates (half of a JSON escape pair becomes one), PostgreSQL refuses NUL as well. Both come from
clients, carriers and models, none of which should bring a call down; so every store, the memory one too, keeps U+FFFD
in their place, and nothing outside this folder needs to know.
"""

import dataclasses
import functools
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, TypeVar, cast

T = TypeVar("T")

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def storable(value: T) -> T:
    """The same value with every text in it storable. Looks into dataclasses, tuples, sets and mappings, and
    makes the last read-only copies."""
    return cast("T", _storable(value))


def _storable(value: Any) -> Any:  # noqa: ANN401 - it takes whatever a value is made of
    if isinstance(value, str):
        # Almost all text is ASCII, and the first test runs at the speed of memory.
        is_clean = "\x00" not in value if value.isascii() else _UNSTORABLE.search(value) is None
        return value if is_clean else _UNSTORABLE.sub("\N{REPLACEMENT CHARACTER}", value)
    if isinstance(value, Mapping):
        return MappingProxyType({_storable(key): _storable(item) for key, item in value.items()})
    if isinstance(value, frozenset | tuple):
        clean = [_storable(item) for item in value]
        return value if all(new is old for new, old in zip(clean, value, strict=True)) else type(value)(clean)
    changed: dict[str, Any] = {}
    for name in _field_names(type(value)):  # type: ignore[arg-type]  # mypy thinks types have no hash
        before = getattr(value, name)
        if before is not None and (after := _storable(before)) is not before:
            changed[name] = after
    return dataclasses.replace(value, **changed) if changed else value


@functools.cache
def _field_names(kind: type[Any]) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(kind)) if dataclasses.is_dataclass(kind) else ()
