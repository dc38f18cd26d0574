"""The house's own rules: floors, sizes, what is packed."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

LIMIT = 700

# Texts with the word "real", by file below motionkit/ and below src/ of its packages. The clips of a data set are
# "reference clips" in every text that is shown: a run cannot know whether they were captured.
REAL = {
    # The key of JSON documents and archives, which stays (docs/evaluation.md defines it).
    "motionkit_predictor/evaluation/long/result.py": {"real"},
    "motionkit_predictor/evaluation/pages.py": {"real"},
    "text_to_motion/evaluation/pages.py": {"real"},
    "text_to_motion/evaluation/sensitivity/audit.py": {"real"},
    "text_to_motion/grpo/measurements.py": {"real"},
    "text_to_motion/grpo/train.py": {"real"},
    "tracking/_change.py": {"real"},
    # Words of which a random stream's seed is made.
    "text_to_motion/evaluation/protocol/measure.py": {"real", "real "},
    # A class of style.css.
    "motionkit_regions/pages.py": {" real"},
    "report/_facts.py": {"plain result interval real", " real"},
    # A row of a published table, as the paper calls it.
    "text_to_motion/evaluation/protocol/tables.py": {"real motions"},
}


def modules(root: Path) -> list[Path]:
    return [path for folder in ("motionkit", "plugins") for path in (root / folder).rglob("*.py")]


def test_no_module_is_longer_than_the_limit(root: Path) -> None:
    long = {
        str(path.relative_to(root)): n for path in modules(root) if (n := len(path.read_text().splitlines())) > LIMIT
    }
    assert not long, f"over {LIMIT} lines: redesign, do not split by line count"


def test_a_floor_imports_only_what_is_below_it(root: Path) -> None:
    command = Path(sys.executable).parent / "lint-imports"
    if not command.is_file():
        pytest.skip("import-linter is not installed")
    done = subprocess.run([str(command), "--no-cache"], cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_every_module_says_what_it_is_for(root: Path) -> None:
    silent = [
        str(path.relative_to(root)) for path in modules(root) if not path.read_text().lstrip().startswith(('"""', "#"))
    ]
    assert [path for path in silent if not path.endswith("__init__.py") or Path(root / path).read_text()] == []


def test_no_loose_ends(root: Path) -> None:
    marks = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
    found = [str(path.relative_to(root)) for path in modules(root) if marks.search(path.read_text())]
    assert found == []


def texts(path: Path) -> Iterator[tuple[str, bool]]:
    """Yield each text of a module, and whether it is a docstring."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value, id(node) in alone


def test_the_clips_of_a_data_set_are_called_reference(root: Path) -> None:
    word, of_clips = re.compile(r"\breals?\b", re.I), re.compile(r"\breal\s+(clip|motion|one)s?\b", re.I)
    found: dict[str, set[str]] = {}
    places = [root / "motionkit", *root.glob("plugins/motionkit-*/src")]
    for place, path in [(folder, path) for folder in places for path in folder.rglob("*")]:
        if path.suffix == ".py":
            wrong = {text for text, alone in texts(path) if (of_clips if alone else word).search(text)}
        elif path.suffix in (".html", ".js"):
            wrong = set(word.findall(path.read_text(encoding="utf-8")))
        else:
            continue
        if wrong:
            found[path.relative_to(place).as_posix()] = wrong
    assert found == REAL


def test_documents_say_reference_or_captured(root: Path) -> None:
    word = re.compile(
        r"\breal\s+(clip|motion|one|movement|walk)s?\b|\b(share of|near|\d of) real\b|真实(片段|动作)", re.I
    )
    pages = [root / "README.md", root / "README.zh-CN.md", root / "motionkit" / "starter" / "README.md"]
    pages += [path for name in ("docs", "examples", "plugins") for path in (root / name).rglob("*.md")]
    found = [
        f"{path.relative_to(root)}: {match[0]}" for path in pages for match in word.finditer(path.read_text("utf-8"))
    ]
    assert found == []


@pytest.mark.parametrize(("page", "words"), [("README.md", "computed by code"), ("README.zh-CN.md", "由程序计算得出")])
def test_the_readme_says_first_what_the_starter_pack_is(root: Path, page: str, words: str) -> None:
    """In the sentence below the first line, and in the caption of the picture."""
    blocks = (root / page).read_text("utf-8").split("\n\n")
    picture = next(place for place, block in enumerate(blocks) if block.startswith("!["))
    assert words in blocks[2]
    assert words in blocks[picture + 1]


def test_csv_files_are_read_in_one_place(root: Path) -> None:
    """`CsvTable` limits bytes, rows and cells, and its errors name the file."""
    readers = re.compile(r"\bcsv\.(reader|DictReader)\b|\bgenfromtxt\(|\bpd\.read_csv\b")
    ours = (path for path in modules(root) if "tests" not in path.parts)
    found = {str(path.relative_to(root)) for path in ours if readers.search(path.read_text())}
    assert found == {"motionkit/documents.py"}


def test_constraints_pin_every_dependency_and_name_no_host(root: Path) -> None:
    text = (root / "constraints.txt").read_text()
    pins = {line.partition("==")[0].lower().replace("_", "-") for line in text.splitlines() if "==" in line}
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    needs = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    names = {re.split(r"[<>=!~\[ ]", need)[0].lower() for need in needs}
    assert names <= pins
    assert "torch==2.13.0" in text.splitlines()
    assert "://" not in text
    assert " @ " not in text


def test_ci_script_is_executable_bash(root: Path) -> None:
    script = root / ".ci" / "run"
    assert script.stat().st_mode & 0o111
    subprocess.run(["bash", "-n", str(script)], check=True)


def test_ci_installs_and_tests_by_the_line_of_both_readmes(root: Path) -> None:
    lines = [
        re.findall(r"^pip install .* && pytest.*$", (root / name).read_text(encoding="utf-8"), re.M)
        for name in ("README.md", "README.zh-CN.md")
    ]
    assert lines[0] == lines[1]
    assert len(lines[0]) == 1
    script = (root / ".ci" / "run").read_text()
    assert "grep -m1 '^pip install .* && pytest' README.md" in script
    besides = re.findall(r'"\$(\w+)" install -c constraints.txt', script)
    assert besides == ["docs", "extras"], "each in an environment of its own"
    assert script.count("install -c constraints.txt") == 2


def test_files_that_contributing_names_exist(root: Path) -> None:
    named = set(re.findall(r"`((?:motionkit|tests)/[\w./]+)`", (root / "CONTRIBUTING.md").read_text()))
    named = {path for path in named if "NAME" not in path}
    assert len(named) > 20
    assert [path for path in sorted(named) if not (root / path).exists()] == []
