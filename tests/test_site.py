"""The parts of the documentation site that need no MkDocs: pages that code makes, links, the check of a built site."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.made.scripts import load_script

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "_site"
PAGES = [ROOT / "README.md", ROOT / "README.zh-CN.md", ROOT / "CONTRIBUTING.md"]
PAGES += [*sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "examples").glob("*/*.md"))]


@pytest.fixture(scope="module")
def pages() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MOTIONKIT_PLUGINS", "")
        patch.syspath_prepend(str(FOLDER))
        yield importlib.import_module("pages")


@pytest.fixture(scope="module")
def links() -> ModuleType:
    return load_script(FOLDER / "links.py")


@pytest.fixture(scope="module")
def check() -> ModuleType:
    return load_script(FOLDER / "check.py")


@pytest.mark.parametrize("kind", ["algorithms", "rewards"])
def test_each_algorithm_and_reward_has_a_page(pages: ModuleType, kind: str) -> None:
    written = {path.stem for path in (ROOT / "docs" / kind).glob("*.md")} - {"README"}
    assert written == set(pages.names(kind))
    for name in written:
        text = (ROOT / "docs" / kind / f"{name}.md").read_text(encoding="utf-8")
        assert text.startswith(f"# {name}\n")
        assert "$$" in text
        assert ("## When" if kind == "algorithms" else "## What it does not see") in text


def test_each_flag_is_on_the_page_of_its_command(pages: ModuleType) -> None:
    commands = {one.words: one for one in pages.commands()}
    decided = json.loads((ROOT / "tests" / "cli" / "flags.json").read_text())
    for command, flags in decided.items():
        if " --algorithm " in command:
            continue  # options of a plugin that is not the default; the plugin's page lists them
        page = pages.command_page(commands[command])
        hidden = {
            name for item in commands[command].built.params if getattr(item, "hidden", False) for name in item.opts
        }
        for name in {part for flag in flags for part in flag.split("/")} - hidden:
            assert f"`{name}`" in page, f"{command} {name}"


def test_pages_are_made_without_torch() -> None:
    script = "import sys, pages; made = pages.generated(); print(len(made), 'torch' in sys.modules)"
    run = [sys.executable, "-c", script]
    done = subprocess.run(run, cwd=ROOT, env={"PYTHONPATH": f"{FOLDER}:{ROOT}"}, capture_output=True, text=True)
    count, torch = done.stdout.split()
    assert int(count) > 200, done.stderr
    assert torch == "False"


def test_the_navigation_of_the_reference_has_every_module(pages: ModuleType) -> None:
    shown = re.findall(r"api/[\w.]+\.md", json.dumps(pages.api_nav()))
    assert sorted(shown) == sorted(["api/index.md", *(one.page for one in pages.modules())])
    assert {"motionkit", "motionkit.rl", "motionkit.text_to_motion.grpo.step"} <= {one.name for one in pages.modules()}


def test_settings_and_audit_of_a_plugin(pages: ModuleType) -> None:
    assert "| `alpha` |" in pages.plugin_tail("rewards", "tmr-dense")
    assert "| `objective.nft_beta` |" in pages.plugin_tail("algorithms", "nft")
    assert "`run.out`" not in pages.plugin_tail("algorithms", "nft")
    found = pages.audit_table((ROOT / "docs" / "rewards.md").read_text(encoding="utf-8"), "tmr-dense")
    assert "| `text-order` | 55 | 14 % |" in found
    assert pages.audit_table("", "tmr-dense") == ""


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_lead_to_files_without_the_site(page: Path, links: ModuleType) -> None:
    text = page.read_text(encoding="utf-8")
    for found in links._LINK.finditer(text):
        target = (found["target"] or "#").partition("#")[0]
        if target and not re.match(r"[a-z]+:", target):
            assert (page.parent / target).exists(), target


def test_links_to_files_become_links_of_the_site(links: ModuleType) -> None:
    text = (
        "[a](../README.md#figures) [b](../motionkit/rl/_plan.py) `[c](x.md)` [d](runs.md) [e](nowhere.md)\n"
        "```\n[f](../README.md)\n```\n![g](../docs/media/before-after.gif) [h](https://example.org)"
    )
    assert links.rewritten(text, "docs/rewards.md", "rewards.md") == (
        "[a](index.md#figures) [b](files/motionkit/rl/_plan.py.md) `[c](x.md)` [d](runs.md) [e](nowhere.md)\n"
        "```\n[f](../README.md)\n```\n![g](media/before-after.gif) [h](https://example.org)"
    )
    nested = links.rewritten("[a](../../README.md)", "docs/algorithms/README.md", "algorithms/README.md")
    assert nested == "[a](../index.md)"
    assert links.place_of("examples/06-write-a-reward") == "examples/06-write-a-reward.md"


def test_a_broken_site_is_noticed(check: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text('<p id="here"><a href="b.html#there">b</a><a href="#here">a</a>')
    (tmp_path / "b.html").write_text('<h1 id="there">b</h1><a href="index.html">a</a>')
    assert list(check.faults(tmp_path)) == []
    (tmp_path / "c.html").write_text(
        '<a href="gone.html">x</a><a href="b.html#gone">y</a><script src="https://example.org/x.js"></script>'
    )
    assert list(check.faults(tmp_path)) == [
        "c.html: gone.html leads nowhere",
        "c.html: b.html#gone has no such place",
        "c.html loads https://example.org/x.js",
    ]
    assert check.main(tmp_path) == 1


def test_comments_of_parameters_are_in_the_reference(tmp_path: Path, pages: ModuleType) -> None:
    griffe = pytest.importorskip("griffe")
    extension = importlib.import_module("fields").Fields()
    lines = (
        "def read(",
        "    path,",
        "    # Frames per second",
        "    fps: float = 0.0,",
        "    *more,  # [T, 3] metres",
    )
    (tmp_path / "sample.py").write_text("\n".join((*lines, "):", '    """Read."""\n')))
    found = griffe.load("sample", search_paths=[tmp_path], extensions=griffe.load_extensions(extension))
    assert found["read"].docstring.value == "Read.\n\nArgs:\n    fps: Frames per second\n    more: [T, 3] metres"


def test_comments_of_a_constructor_are_in_the_reference(tmp_path: Path, pages: ModuleType) -> None:
    griffe = pytest.importorskip("griffe")
    extension = importlib.import_module("fields").Fields()
    text = 'class Reader:\n    """Reads."""\n    def __init__(\n        self,\n        path,  # a file\n    ): ...\n'
    (tmp_path / "sample.py").write_text(text)
    found = griffe.load("sample", search_paths=[tmp_path], extensions=griffe.load_extensions(extension))
    assert found["Reader"].docstring.value == "Reads.\n\nArgs:\n    path: A file"
