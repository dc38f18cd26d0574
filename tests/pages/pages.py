"""Runs a page of examples/pages in this process."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

PAGES = Path(__file__).resolve().parents[2] / "examples" / "pages"


def run(name: str, **sizes: int) -> dict[str, Any]:
    """Run a page with other values of its first constants, such as ``UPDATES=3``; return its names and their values."""
    source = (PAGES / f"{name}.py").read_text(encoding="utf-8")
    for constant, value in sizes.items():
        # A line such as ``UPDATES = 10``, or ``PROMPTS, GROUP = 32, 2``, of which the first value is replaced.
        source, count = re.subn(rf"^({constant}\b[^=\n]* = )[\d_]+", rf"\g<1>{value}", source, flags=re.M)
        assert count == 1, f"{name} has no {constant}"
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(source, str(PAGES / f"{name}.py"), "exec"), names)
    return names
