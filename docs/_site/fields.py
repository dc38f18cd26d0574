"""How docstrings are read for the API reference: examples, and attributes described by what stands beside them."""

from __future__ import annotations

import ast
import re
from typing import Any

from griffe import Attribute, Docstring, Extension, Function, Object

_NOISE = re.compile(r"noqa|type:|fmt:|pragma")


class Fields(Extension):
    """Reads ``Field(description=...)`` of settings, the comments of records and of parameters, and examples."""

    def on_instance(self, *, obj: Object, **_: Any) -> None:
        """Name examples as griffe does, which then shows them as code."""
        if obj.docstring is not None:
            obj.docstring.value = re.sub(r"^Example:$", "Examples:", obj.docstring.value, flags=re.M)

    def on_function_instance(self, *, node: Any, func: Function, **_: Any) -> None:
        """List the parameters that comments in the signature describe, where the docstring lists none."""
        owner = func.parent if func.name == "__init__" else func  # the docstring of a class is that of its constructor
        docstring = owner.docstring if owner is not None else None
        if docstring is None or "Args:" in docstring.value or not hasattr(node, "args"):
            return
        every = [*node.args.posonlyargs, *node.args.args, node.args.vararg, *node.args.kwonlyargs, node.args.kwarg]
        said = {one.arg: _comment(one, func) for one in every if one is not None and one.lineno > node.lineno}
        listed = "".join(f"\n    {name}: {text[:1].upper()}{text[1:]}" for name, text in said.items() if text)
        docstring.value += f"\n\nArgs:{listed}" if listed else ""

    def on_attribute_instance(self, *, node: Any, attr: Attribute, **_: Any) -> None:
        """Give an attribute a docstring, and show the default in place of the call of ``Field``."""
        if not isinstance(node, ast.AnnAssign) or attr.parent is None or not attr.parent.is_class:
            return
        kind = node.annotation
        if isinstance(kind, ast.Subscript) and getattr(kind.value, "id", "") == "Annotated":
            first = kind.slice.elts[0] if isinstance(kind.slice, ast.Tuple) else kind.slice
            attr.annotation = ast.unparse(first)
        call = node.value
        said = ""
        if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "Field":
            given = {one.arg: one.value for one in call.keywords}
            default = call.args[0] if call.args else given.get("default", given.get("default_factory"))
            attr.value = None if default is None else ast.unparse(default)
            words = given.get("description")
            said = words.value if isinstance(words, ast.Constant) else ""
        if attr.docstring is None and (said := said or _comment(node, attr)):
            attr.docstring = Docstring(said, parent=attr, lineno=node.lineno)


def _comment(node: ast.AnnAssign | ast.arg, attr: Attribute | Function) -> str:
    """Return the comment behind a field, or the ones above it; empty without."""
    lines = attr.lines_collection[attr.filepath]
    behind = lines[(node.end_lineno or node.lineno) - 1].partition("  # ")[2].strip()
    if behind:
        return "" if _NOISE.match(behind) else behind
    above: list[str] = []
    for line in reversed(lines[: node.lineno - 1]):
        if not line.strip().startswith("# "):
            break
        above.insert(0, line.strip()[2:])
    return " ".join(above)
