"""Set top-level keys of a YAML text and leave the rest of it as it is."""

from __future__ import annotations

from collections.abc import Mapping

import yaml


def edit_yaml(text: str, changes: Mapping[str, object]) -> str:
    """Return the text with keys set at the top level of a block mapping.

    Args:
        text: YAML with one document; empty is fine.
        changes: Values to set; a key that is there is replaced in its place, others are added at the end.

    Raises:
        ValueError: The top is no block mapping.
    """
    node = yaml.compose(text, Loader=yaml.SafeLoader)
    places: dict[str, tuple[int, int]] = {}
    if node is not None:
        if not isinstance(node, yaml.MappingNode) or node.flow_style:
            raise ValueError("the top is no block of keys")
        for key, value in node.value:
            start, stop = key.start_mark.index, value.end_mark.index
            places[str(key.value)] = (start, start + len(_without_comments(text[start:stop])))
    fresh = ""
    edits: list[tuple[int, int, str]] = []
    for key, value in changes.items():
        written = dump_yaml({key: value})
        if key in places:
            edits.append((*places[key], written.rstrip("\n")))
        else:
            fresh += written
    for first, last, words in sorted(edits, reverse=True):
        text = text[:first] + words + text[last:]
    if fresh and text and not text.endswith("\n"):
        text += "\n"
    return text + fresh


def dump_yaml(table: Mapping[str, object]) -> str:
    """Write a mapping in block style, in its own order."""
    written: str = yaml.safe_dump(dict(table), sort_keys=False, allow_unicode=True, width=120)
    return written


def _without_comments(block: str) -> str:
    """Take blank lines and comments off the end: PyYAML lets a block reach to the next key."""
    lines = block.splitlines(keepends=True)
    while len(lines) > 1 and (not lines[-1].strip() or lines[-1].lstrip().startswith("#")):
        lines.pop()
    return "".join(lines).rstrip("\n")
