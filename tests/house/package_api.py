"""What motionkit's own packages use of the core, written down in docs/package-api.md.

    python tests/house/package_api.py [--write]

Plain Python over the tree, no import of the package. Prints the page, or writes it.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "package-api.md"

_HEAD = """# What packages build on

The names of motionkit that its own packages in `plugins/` import: what a package of others may build on too. A test
compares this page with the packages; `python tests/house/package_api.py --write` writes it.

| module | names |
|---|---|
"""


def used(root: Path = ROOT) -> dict[str, set[str]]:
    """Return the names by module of the core that the packages of packages.txt import; a module alone has none."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    lines = (root / "packages.txt").read_text(encoding="utf-8").split("\n")
    for folder in (line.removeprefix("-e ") for line in lines if line.startswith("-e plugins/")):
        for path in sorted((root / folder / "src").rglob("*.py")):
            if "templates" in path.parts:
                continue
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "motionkit":
                    found[node.module] |= {name.name for name in node.names}
                elif isinstance(node, ast.Import):
                    for name in node.names:
                        if name.name.split(".")[0] == "motionkit":
                            found[name.name] |= set()
    return dict(sorted(found.items()))


def page() -> str:
    """Return the page."""
    rows = (f"| `{module}` | {', '.join(f'`{name}`' for name in sorted(names))} |" for module, names in used().items())
    return _HEAD + "\n".join(rows) + "\n"


if __name__ == "__main__":
    if "--write" in sys.argv:
        PAGE.write_text(page(), encoding="utf-8")
    else:
        print(page(), end="")
