"""The notebook of the examples runs as plain code, and what its cells end with shows itself."""

from __future__ import annotations

import ast
import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import motionkit
from motionkit.clips.motion_clip import Motions
from motionkit.motion import HUMANML
from motionkit.player import MAX_TRACKS
from motionkit.runs import open_run
from motionkit.starter import generate

NOTEBOOK = Path(__file__).parents[1] / "examples/08-in-a-notebook/notebook.ipynb"


def cells() -> list[str]:
    document = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    assert document["nbformat"] == 4
    return ["".join(cell["source"]) for cell in document["cells"] if cell["cell_type"] == "code"]


def run_cell(source: str, names: dict[str, Any]) -> object:
    """Run a cell, and return what its last line is worth."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), names)
    return eval(compile(ast.Expression(last.value), "cell", "eval"), names) if isinstance(last, ast.Expr) else None


class Found(HTMLParser):
    """Tags, and the text of scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.scripts: list[str] = []
        self.attributes: dict[str, dict[str, str | None]] = {}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes[tag] = dict(attrs)

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1] == "script":
            self.scripts.append(data)


def tracks_of(html: str) -> list[dict[str, Any]]:
    found = Found(html)
    assert found.tags.count("motionkit-player") == 1
    tracks: list[dict[str, Any]] = json.loads(found.scripts[-1])["tracks"]
    return tracks


def test_the_notebook_runs_and_its_motions_play(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    shown = [run_cell(source, names) for source in cells()]
    assert [type(value).__name__ for value in shown] == ["Motions", "MotionClip", "NoneType", "Prompt"]
    assert [track["title"] for track in tracks_of(shown[0]._repr_html_())] == [  # type: ignore[attr-defined]
        "a person walks forward", "a person waves with the right hand",
    ]  # fmt: skip
    assert tracks_of(shown[1]._repr_html_())[0]["frames"] == 50  # type: ignore[attr-defined]
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [line[0] for line in lines] == ["0", "1"]
    assert all(0.3 < float(line[1]) < 2.2 for line in lines), "metres"


def walk() -> motionkit.MotionClip:
    import torch

    from motionkit.motion import Clip, JointMotion

    joints = torch.from_numpy(generate("walk", frames=40).joints)
    return motionkit.MotionClip.of(Clip(JointMotion(HUMANML.joint_names, HUMANML.parents, joints, 20.0)))


def test_a_list_of_motions_is_one_player_and_says_what_it_leaves_out() -> None:
    one = walk()
    assert len(tracks_of(Motions([one, one])._repr_html_() or "")) == 2
    many = Motions([one] * (MAX_TRACKS + 2))._repr_html_() or ""
    assert len(tracks_of(many)) == MAX_TRACKS
    assert "and 2 more" in many
    assert Motions()._repr_html_() is None, "an empty list shows as a list"
    assert Motions([one]) == [one]
    assert len(tracks_of(Motions([one] * 3)[1:]._repr_html_() or "")) == 2, "a slice shows itself too"
    assert Motions([one])[0] is one


def test_a_run_shows_its_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with open_run("grpo", {"run": {"name": "first", "num_steps": 1}}) as run:
        run.log(1, {"reward/mean": 0.5})
        run.finish()
    shown = motionkit.load_run("first")
    assert repr(shown) == "Run('runs/grpo/first', grpo, done)"
    assert [line["reward/mean"] for line in shown.metrics()] == [0.5]
    frame = Found(shown._repr_html_()).attributes["iframe"]
    page = Found(frame["srcdoc"] or "")
    assert page.tags[:2] == ["html", "head"]
    assert "first" in (frame["srcdoc"] or "")
    assert shown.config["run"]["num_steps"] == 1
    with pytest.raises(motionkit.MotionkitError, match="second"):
        motionkit.load_run("second")
