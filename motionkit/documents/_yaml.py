"""Reads YAML: plain values only, and aliases with a bound on what they expand to."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from motionkit.documents._text import DEPTH, check_values, read_text, require_kind, too_deep
from motionkit.errors import MotionkitError

if TYPE_CHECKING:
    import yaml

T = TypeVar("T")

LIMIT = 256 << 10
"""Bytes of a file; it is parsed by plain Python, in about 3 s at most."""

_VALUES = 100_000
"""Values of a document with all aliases expanded."""

_SCALAR = 64
"""Letters of a number; numbers to the base of 60 (YAML 1.1) take time quadratic in their length."""

_EXPONENT = re.compile(r"[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+$")


def read_yaml(path: str | Path, kind: type[T], *, limit: int = LIMIT) -> T:
    """Read a YAML file.

    Args:
        path: The file, UTF-8.
        kind: Type that the document must have: ``dict``, ``list``, or ``object`` for any.
        limit: Bytes beyond which it is not read.
    """
    return parse_yaml(read_text(path, limit=limit), str(path), kind)


def parse_yaml(text: str, origin: str, kind: type[T]) -> T:
    """Parse YAML; an empty document is an empty table where a table is expected.

    Args:
        text: The document.
        origin: Where it comes from, for messages.
        kind: Type that the document must have: ``dict``, ``list``, or ``object`` for any.

    Example:
        >>> parse_yaml("{alpha: 0.5, names: [a, b]}", "rewards.yaml", dict)
        {'alpha': 0.5, 'names': ['a', 'b']}
    """
    import yaml

    try:
        document: object = yaml.load(text, Loader=_loader())
    except RecursionError as error:
        raise too_deep(origin) from error
    except (yaml.YAMLError, ValueError, OverflowError, TypeError, AttributeError) as error:
        # Besides YAMLError, PyYAML raises others for impossible dates, malformed numbers, and tables in place of
        # scalars.
        raise MotionkitError(f"{origin} is not valid YAML: {' '.join(str(error).split())}") from error
    check_values(document, origin)
    return require_kind({} if document is None and kind is dict else document, kind, origin)


@cache
def _loader() -> type[yaml.SafeLoader]:
    import yaml

    class Loader(yaml.SafeLoader):
        """PyYAML's safe loader with bounds."""

        level = 0

        def compose_node(self, parent: Any, index: Any) -> Any:
            self.level += 1
            if self.level > DEPTH:
                raise RecursionError
            try:
                return super().compose_node(parent, index)
            finally:
                self.level -= 1

        def compose_document(self) -> Any:
            node = super().compose_document()
            unfolded = _unfolded(node, {})
            if unfolded > _VALUES:
                raise yaml.YAMLError(f"it holds more than {_VALUES} values, counting what its aliases stand for")
            return node

        def construct_scalar(self, node: Any) -> Any:
            value = super().construct_scalar(node)
            if node.tag.endswith((":int", ":float")) and len(value) > _SCALAR:
                raise yaml.YAMLError(f"a number has {len(value)} letters, at most {_SCALAR} are read")
            return value

    # YAML 1.2 and every other reader here take 1e-3 for a number; PyYAML wants a point and a sign in it.
    Loader.add_implicit_resolver("tag:yaml.org,2002:float", _EXPONENT, [*"-+0123456789"])
    return Loader


def _unfolded(node: Any, known: dict[int, float]) -> float:
    """Return the number of values below a node, itself included; infinite when it contains itself."""
    if (size := known.get(id(node))) is not None:
        return size
    known[id(node)] = float("inf")
    inside = node.value if isinstance(node.value, list) else []
    parts = [part for item in inside for part in (item if isinstance(item, tuple) else (item,))]
    known[id(node)] = 1 + sum(_unfolded(part, known) for part in parts)
    return known[id(node)]
