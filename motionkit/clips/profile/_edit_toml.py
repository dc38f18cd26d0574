"""Set top-level keys and tables of a TOML text and leave the rest of it as it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tomlkit.container import Container
    from tomlkit.items import Table

_LIMIT = 1 << 15
"""Letters of a text that is edited; tomlkit takes up to 0.3 ms a letter."""


def edit_toml(text: str, changes: Mapping[str, object]) -> str:
    """Return the text with keys set: values before the first table, tables as ``[name]`` at the end.

    Args:
        text: TOML that `motionkit.documents.parse_toml` accepts (it bounds depth and values); empty is fine.
        changes: Values to set; a key that is there is replaced in its place, and in a table ``[name]`` that is there
            each key is; others are added after the last one.

    Raises:
        ValueError: A key to be replaced is written as a list of tables or with dots, TOML has no such value, or the
            text is longer than 32,768 letters.
    """
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    if text and not changes:
        return text
    if len(text) > _LIMIT:
        raise ValueError(f"{len(text)} letters are too many to edit")
    try:
        document = tomlkit.parse(text)
        for key, value in changes.items():
            if isinstance(value, Mapping) and key not in document:
                document.append(key, tomlkit.table())
        _set(document, changes)
        edited = tomlkit.dumps(document)
    except TOMLKitError as error:
        raise ValueError(str(error)) from error
    return edited if edited.endswith("\n") else f"{edited}\n"


def dump_toml_file(table: Mapping[str, object]) -> str:
    """Write a table as a file of its own, its tables as ``[name]`` at the end; keys without a value are left out."""
    # As text: tomlkit takes time with the square of the number of keys that are added.
    text = _lines({key: value for key, value in table.items() if not isinstance(value, Mapping)})
    for key, value in table.items():
        if isinstance(value, Mapping):
            text += f"\n[{_key(key)}]\n{_lines(value)}"
    return text.lstrip("\n") or "\n"


def dump_toml(value: object) -> str:
    """Write a value; lists of tables take a line per table.

    Raises:
        ValueError: TOML has no such value.
    """
    import tomlkit

    if isinstance(value, Mapping):
        inside = _lines(value, ", ").removesuffix(", ")
        return f"{{ {inside} }}" if inside else "{}"
    if isinstance(value, list):
        parts = [dump_toml(part) for part in value]
        if any(isinstance(part, Mapping) for part in value):
            return "[\n" + "".join(f"  {part},\n" for part in parts) + "]"
        return f"[{', '.join(parts)}]"
    return tomlkit.item(value).as_string()


def _lines(table: Mapping[str, object], end: str = "\n") -> str:
    return "".join(f"{_key(key)} = {dump_toml(value)}{end}" for key, value in table.items() if value is not None)


def _key(key: str) -> str:
    import tomlkit

    return tomlkit.key(key).as_string()


def _set(table: Container | Table, changes: Mapping[str, object]) -> None:
    """Set the keys of a table that differ; None leaves a key as it is."""
    import tomlkit
    from tomlkit.container import OutOfOrderTableProxy
    from tomlkit.items import AoT, Table

    plain = table.unwrap()
    for key, value in changes.items():
        if value is None or (key in plain and plain[key] == value):
            continue
        old = table.get(key)
        if isinstance(old, Table) and not old.is_super_table() and isinstance(value, Mapping):
            _set(old, value)
        elif isinstance(old, (AoT, OutOfOrderTableProxy, Table)):
            raise ValueError(f"{key} is written as several tables or with dots")
        else:
            table[key] = tomlkit.value(dump_toml(value))
