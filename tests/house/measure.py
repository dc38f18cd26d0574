"""Measure the house: how much there is to read, and how rooms lean on each other.

    python tests/house/measure.py [FOLDER] [--names] [--json]

Plain Python over the tree, no import of the package. FOLDER is a checkout, this one by default. A room is a folder
right below ``motionkit/``; a private import is one of a module with an underscore in its path, from another room.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import statistics
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PACKAGE = "motionkit"
MODELS = ("network", "policy", "loss", "train", "evaluate")
"""Beginnings of the names of the files of a system in which tensors are bent, an underscore before them or not."""

PLATFORM = (
    "", "cli", "config", "contracts", "documents", "errors", "plugins", "report", "runs", "testing", "tracking",
    "training", "tuning",
)  # fmt: skip
"""Rooms that no system is in; the first is the package itself."""

SYSTEMS = ("text_to_motion", "predictor", "success", "regions")
"""Rooms, or names of packages after ``motionkit_``, that the platform does not know."""


@dataclass(frozen=True)
class Module:
    """One file.

    Attributes:
        path: The file.
        name: Its dotted name.
        lines: Number of lines.
        tree: Its syntax.
        text: Its source.
    """

    path: Path
    name: str
    lines: int
    tree: ast.Module
    text: str

    @property
    def room(self) -> str:
        """The folder right below the package; empty for what lies in the package itself."""
        parts = self.name.split(".")
        return parts[1] if len(parts) > 2 or (self.path.stem == "__init__" and len(parts) == 2) else ""


def read(folder: Path, root: Path) -> list[Module]:
    """Return the modules below `folder` but those of the templates of packages; names are relative to `root`."""
    found = []
    for path in sorted(folder.rglob("*.py")):
        if "templates" in path.parts:
            continue
        parts = path.relative_to(root).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        text = path.read_text(encoding="utf-8")
        found.append(Module(path, name, len(text.splitlines()), ast.parse(text), text))
    return found


def _is_ours(name: str) -> bool:
    return name.partition(".")[0].partition("_")[0] == PACKAGE


def imports(module: Module, known: set[str]) -> Iterator[tuple[str, str]]:
    """Yield (module, name) of every import of the package; the name is empty if a module itself is imported."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names if _is_ours(alias.name))
        elif isinstance(node, ast.ImportFrom) and not node.level and _is_ours(node.module or ""):
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                yield (whole, "") if whole in known else (str(node.module), alias.name)


def is_private(name: str) -> bool:
    """Whether a dotted name goes through a module whose name begins with an underscore."""
    return any(part.startswith("_") and not part.startswith("__") for part in name.split("."))


def own_packages(root: Path) -> list[Path]:
    """Return the folders of the packages that packages.txt installs beside motionkit itself."""
    file = root / "packages.txt"
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    return [root / line.removeprefix("-e ") for line in lines if line.startswith("-e plugins/")]


def comment_lines(text: str) -> int:
    """Return the number of lines that are a comment and nothing else."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return sum(token.type == tokenize.COMMENT and token.line.lstrip().startswith("#") for token in tokens)


def exported(module: Module) -> int:
    """Return the number of names in its ``__all__``."""
    for node in module.tree.body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets):
            return len(node.value.elts) if isinstance(node.value, (ast.List, ast.Tuple)) else 0
    return 0


def named_systems(package: list[Module], known: set[str]) -> int:
    """Return how many names the platform imports from systems."""
    return sum(
        any(part in SYSTEMS for part in target.replace("motionkit_", "motionkit.").split(".")[1:2])
        for module in package
        if module.room in PLATFORM
        for target, _ in imports(module, known)
    )


def optional(package: list[Module]) -> int:
    """Return the calls of ``getattr`` with a default and of ``hasattr``."""
    return sum(
        isinstance(node, ast.Call) and (ast.unparse(node.func), len(node.args)) in (("getattr", 3), ("hasattr", 2))
        for module in package
        for node in ast.walk(module.tree)
    )


def protocols(package: list[Module]) -> int:
    """Return the number of classes with ``Protocol`` among their bases, with parameters or without."""
    return sum(
        isinstance(node, ast.ClassDef)
        and any(ast.unparse(base).partition("[")[0].rpartition(".")[2] == "Protocol" for base in node.bases)
        for module in package
        for node in ast.walk(module.tree)
    )


def measure(root: Path) -> dict[str, float]:
    """Return the figures of a checkout."""
    package, tests = read(root / PACKAGE, root), read(root / "tests", root)
    whole = [*package, *(module for folder in own_packages(root) for module in read(folder / "src", folder / "src"))]
    tests += [module for folder in own_packages(root) for module in read(folder / "tests", root)]
    known = {module.name for module in package}
    sizes = [module.lines for module in package if module.path.stem != "__init__"]
    crossing = {
        (module.name, target)
        for module in package
        for target, _ in imports(module, known)
        if is_private(target) and (module.room or target.count(".") > 1) and target.split(".")[1] != module.room
    }
    inner = {module.name for module in tests if any(is_private(target) for target, _ in imports(module, known))}
    systems = [module for module in package if module.room not in PLATFORM]
    bent = [module for module in systems if module.path.stem.lstrip("_").startswith(MODELS)]
    total = sum(module.lines for module in tests)
    raises = [
        node for module in tests for node in ast.walk(module.tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.raises"
    ]  # fmt: skip
    return {
        "core lines": sum(module.lines for module in package),
        "core modules": len(package),
        "all lines, packages included": sum(module.lines for module in whole),
        "all modules": len(whole),
        "names of systems in the platform": named_systems(package, known),
        "getattr with a default, hasattr": optional(whole),
        "classes with a Protocol base": protocols(whole),
        "median lines of a module": statistics.median(sizes),
        "largest module": max(sizes),
        "modules under 60 lines": sum(size < 60 for size in sizes),
        "imports of another room's private module": len(crossing),
        "names in __all__": sum(map(exported, package)),
        "comment lines where tensors are bent, %": round(
            100 * sum(comment_lines(m.text) for m in bent) / max(sum(m.lines for m in bent), 1), 1
        ),
        "test lines": total,
        "pytest.raises": len(raises),
        "of them with match=": sum(any(word.arg == "match" for word in node.keywords) for node in raises),
        "of them in files that import private modules, %": round(
            100 * sum(module.lines for module in tests if module.name in inner) / total
        ),
    }


def most_imported(root: Path, count: int = 10) -> dict[str, list[tuple[str, int]]]:
    """Return, for each room, the names that other rooms import most, with the number of modules that do."""
    package = read(root / PACKAGE, root)
    known = {module.name for module in package}
    found: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for module in package:
        for target, name in set(imports(module, known)):
            room = target.split(".")[1] if "." in target else ""
            if room and room != module.room:
                found[room][name or target] += 1
    return {room: found[room].most_common(count) for room in sorted(found)}


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, default=Path(__file__).resolve().parents[2])
    parser.add_argument("--names", action="store_true", help="also the ten names of each room that others import most")
    parser.add_argument("--json", action="store_true", help="as JSON")
    given = parser.parse_args()
    figures = measure(given.folder)
    names = most_imported(given.folder) if given.names else {}
    if given.json:
        print(json.dumps({"figures": figures, "names": names}, indent=1))
        return
    print("| | |\n|---|---|")
    for name, value in figures.items():
        print(f"| {name} | {value:,g} |")
    for room, row in names.items():
        print(f"\n{room}: " + ", ".join(f"{name} {count}" for name, count in row))


if __name__ == "__main__":
    main()
