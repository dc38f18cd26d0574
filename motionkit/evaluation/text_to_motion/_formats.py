"""A table as Markdown, LaTeX or CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any, Literal

Format = Literal["table", "markdown", "latex", "csv"]
_LATEX = str.maketrans(
    {"&": r"\&", "%": r"\%", "_": r"\_", "#": r"\#", "$": r"\$", "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}",
     "^": r"\^{}", "\\": r"\textbackslash{}", "±": r"$\pm$", "↑": r"$\uparrow$", "↓": r"$\downarrow$"}
)  # fmt: skip


def formatted(tables: Sequence[Mapping[str, Any]], kind: Format) -> str:
    """Return tables, as the command line prints them, in another format; ``table`` is the command line's own.

    LaTeX uses no package. In CSV tables follow each other after an empty line.

    Example:
        >>> formatted([{"title": "x", "columns": ["", "a"], "rows": [("FID", "0.5")]}], "markdown").splitlines()[-1]
        '| FID | 0.5 |'
    """
    write = {"markdown": _markdown, "latex": _latex, "csv": _csv}
    return "\n\n".join(write[kind](table) for table in tables) if kind in write else ""


def _markdown(table: Mapping[str, Any]) -> str:
    numbers = set(table.get("numbers", ()))
    rules = ["---:" if place in numbers else "---" for place in range(len(table["columns"]))]
    rows = [table["columns"], rules, *table["rows"]]
    lines = ["| " + " | ".join(str(cell).replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join([f"**{table['title']}**", "", *lines] if table.get("title") else lines)


def _latex(table: Mapping[str, Any]) -> str:
    numbers = set(table.get("numbers", ()))
    places = "".join("r" if place in numbers else "l" for place in range(len(table["columns"])))
    rows = [" & ".join(str(cell).translate(_LATEX) for cell in row) + r" \\" for row in table["rows"]]
    head = " & ".join(str(cell).translate(_LATEX) for cell in table["columns"]) + r" \\"
    title = [f"% {table['title']}"] if table.get("title") else []
    return "\n".join(
        [*title, rf"\begin{{tabular}}{{{places}}}", r"\hline", head, r"\hline", *rows, r"\hline", r"\end{tabular}"]
    )


def _csv(table: Mapping[str, Any]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(table["columns"])
    writer.writerows(table["rows"])
    return out.getvalue().rstrip("\n")
