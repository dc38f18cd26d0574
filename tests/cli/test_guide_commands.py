"""The table of every example command of guides 000 and 001 beside its motionkit line.

Run ``python tests/cli/test_guide_commands.py GUIDES`` (the guides' folder) when translations changed on purpose.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

from typer.testing import CliRunner, Result

from motionkit.cli import get_app

Cli = Callable[..., Result]
Dry = Callable[[list[str]], tuple[str, Result]]
GUIDES = ("000-tmr-reward.md", "001-grpo-training.md")
PAGE = Path("examples/03-text-to-motion-grpo/experiments.md")
START, END = "<!-- commands of guides 000 and 001 -->\n\n", "\n<!-- end -->\n"
PLAIN = {"--model_path", "--save_dir", "--dataset", "--batch_size", "--group_size", "--num_steps", "--learning_rate",
         "--device", "--tmr_text_encoder_path", "--tmr_motion_encoder_path", "--tmr_movement_encoder_path",
         "--lambda_skate", "--lambda_jerk", "--beta_s", "--beta_p", "--disable_random_crop"}  # fmt: skip
"""What nearly all commands have, or nothing hangs on: left out of the short form."""


def lines_of(text: str) -> list[list[str]]:
    """Return the commands of a guide's text, as words."""
    joined = re.sub(r"\\\s*\n\s*|\s*\n\s*(?=--)", " ", text)  # the guides forget some backslashes
    found = [line.strip() for line in joined.splitlines()]
    return [shlex.split(line) for line in found if line.startswith("python ") and "..." not in line]


def short(words: list[str]) -> str:
    """Return a command with the flags that tell it from the others."""
    script = words[2] if words[1] == "-m" else words[1]
    kept: list[str] = []
    keep = False
    for word in (each.strip() for each in words[3 if words[1] == "-m" else 2 :]):
        keep = word not in PLAIN if word.startswith("--") else keep
        if keep:
            kept.append(word)
    name = dict(pairwise(words)).get("--save_dir", "").rpartition("/")[2]
    return shlex.join([script.rpartition("/")[2], *kept]) + (f" ({name})" if name else "")


def translated(words: list[str]) -> str:
    """Return the motionkit line of an old command."""
    error = json.loads(CliRunner().invoke(get_app(), [*words, "--json"]).stdout)["error"]
    return shlex.join(word for word in shlex.split(error["fix"].replace("\\\n", " ")) if word != "--json")


def table(guides: Path) -> str:
    """Return the table."""
    rows, seen = [], []
    for name in GUIDES:
        for words in lines_of((guides / name).read_text(encoding="utf-8")):
            if words not in seen:
                rows.append(f"| {name[:3]} | `{short(words)}` | `{translated(words)}` |\n")
            seen.append(words)
    return "| guide | its command | motionkit |\n|---|---|---|\n" + "".join(rows)


def shown(root: Path) -> str:
    text = (root / PAGE).read_text(encoding="utf-8")
    return text[text.index(START) + len(START) : text.index(END)]


def test_the_table_has_every_command(root: Path, shared: Path, cli: Cli) -> None:
    assert shown(root) == table(shared / "guides"), f"rewrite it: python {Path(__file__).name} GUIDES"


def test_the_lines_of_the_table_parse(root: Path, dry: Dry) -> None:
    lines = re.findall(r"\| `(motionkit [^`]+)` \|\n", shown(root))
    assert len(lines) > 15
    for line in lines:
        _, done = dry(shlex.split(line)[1:])
        assert done.exit_code == 0, f"{line}\n{done.stderr}"


if __name__ == "__main__":
    import sys

    text = PAGE.read_text(encoding="utf-8")
    head, tail = text[: text.index(START) + len(START)], text[text.index(END) :]
    PAGE.write_text(head + table(Path(sys.argv[1])) + tail, encoding="utf-8")
