"""The script behind the policy's table and plot: what it says of reference clips, of statues and of other motions."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import ModuleType

import pytest
import torch

import motionkit
from motionkit.metrics._movement import QUIET
from motionkit.motion import HUMANML, features_to_joints
from motionkit.starter import CATALOGUE
from motionkit.text_to_motion.generating import generate_motions, plan_steps
from tests.made.scripts import load_script

FOLDER = Path(__file__).resolve().parents[2] / "tests" / "studies" / "starter"


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    return load_script(FOLDER / "measure_policy.py")


@pytest.fixture(scope="module")
def dataset():
    return motionkit.load_dataset("starter", clips=288, val_clips=288, test_clips=144)


@pytest.fixture(scope="module")
def ruler(tool, dataset):
    torch.set_num_threads(1)
    return tool.Ruler(dataset, 4)


def test_real_clips_move_as_far_as_real_clips_and_a_held_frame_does_not_move(ruler) -> None:
    real = [clip.features for clip in ruler.clips]
    figures, classes = ruler.figures(real), ruler.classes(real)
    assert figures["statues"] == figures["fast"] == 0
    assert figures["judge"] > 0.8
    assert list(classes) == [entry.name for entry in CATALOGUE[:4]]
    assert all(0.6 < share < 1.5 and size > QUIET for share, size in classes.values())
    # Features hold the root's way per frame: without it a repeated frame is a statue.
    held = [clip[:1].expand(len(clip), -1).clone() for clip in real]
    for clip in held:
        clip[:, :3] = 0
    figures, classes = ruler.figures(held), ruler.classes(held)
    assert figures["statues"] == 1
    assert figures["fast"] == 0
    assert figures["jerk"] < 0.01
    assert all(share < 1e-3 for share, _ in classes.values())


def test_steps_beyond_the_fastest_of_the_class_are_counted(tool, dataset, ruler) -> None:
    """The limit is the fastest joint of all training and validation clips of the class, in any step."""
    clips = [clip for split in ("train", "val") for clip in dataset.clips(split)]
    speeds = [speed(clip.features) for clip in clips if dataset.action(clip.captions[0]) == "walk/normal"]
    limit = max(float(one.max()) for one in speeds)
    assert ruler.fastest["walk/normal"] == pytest.approx(limit, rel=1e-4)
    hasty = ruler.clips[0].features.clone()
    hasty[:, 1:3] *= 8  # the root travels eight times as far
    motions = [hasty, *(clip.features for clip in ruler.clips[1:])]
    too_fast = int((speed(hasty) > tool.FAST * limit).sum())
    assert too_fast > 0
    assert ruler.figures(motions)["fast"] == pytest.approx(too_fast / sum(len(one) - 1 for one in motions))


def speed(features: torch.Tensor) -> torch.Tensor:
    joints = features_to_joints(features, HUMANML)
    return (joints[1:] - joints[:-1]).square().sum(-1).sqrt().amax(-1) * 20


def test_motions_are_those_that_generate_makes(tool, dataset, ruler) -> None:
    """Sampling them by length changes nothing: each is what it is alone."""
    policy = motionkit.load_policy("starter", dataset=dataset)
    made = tool.generated(policy, ruler.prompts)
    assert [len(one) for one in made] == [prompt.length for prompt in ruler.prompts]
    plan, guidance = plan_steps(policy), tool.guidance_of(policy)
    for prompt, one in zip(ruler.prompts, made, strict=True):
        (alone,) = generate_motions(policy, [prompt], plan, guidance=guidance, seed=0)
        torch.testing.assert_close(one, alone.features, atol=1e-3, rtol=1e-3)


def results(shares: list[float], quiet: list[float]) -> dict:
    figures = {"movement": 0.9, "inside": 0.5, "statues": 0.031, "side": None, "fast": 0.012, "skate": 0.08}
    figures |= {"jerk": 63.4, "fid": 1.14, "judge": 0.926, "r_precision_3": 0.9}
    return {
        "captions": 8,
        "policy": figures,
        "real": figures,
        "classes": {f"walk/{i}": [share, 1.0] for i, share in enumerate(shares)},
        "quiet": {f"nod/{i}": [size, 0.015] for i, size in enumerate(quiet)},
    }


def test_the_plot_has_a_dot_for_each_class_before_and_now(tool) -> None:
    chart = tool.plot(results([0.1, 0.2, 3.0], [0.004]), results([0.9, 0.5, 1.2], [0.011]))
    assert chart.count("<circle") == 2 * 4 - 1
    assert chart.count("<polygon") == 1  # beyond the axis
    assert "walk/2, before: 3.00 of reference" in chart
    assert "before: median 0.20" in chart
    assert "now: median 0.90" in chart
    places = [float(x) for x in re.findall(r'class="dot c2" cx="([\d.]+)"', chart)]
    tips = re.findall(r"<title>(walk/\d), now", chart)
    assert tips == ["walk/1", "walk/0", "walk/2"]  # by what they move now
    assert places == sorted(places)


def test_the_table_goes_between_the_marks(tool, tmp_path: Path) -> None:
    page = tmp_path / "README.md"
    page.write_text("above\n\n<!-- policy -->\nold\n<!-- end of policy -->\n\nbelow\n")
    tool.write_table(page, tool.table([results([1.0], []), results([1.0], [])], ["first", "policy"]))
    lines = page.read_text().splitlines()
    assert lines[:3] == ["above", "", "<!-- policy -->"]
    assert lines[3] == "| 8 test captions | first | policy | reference |"
    assert "| statues | 3.1 % | 3.1 % | 3.1 % |" in lines
    assert "| named side right |  |  |  |" in lines
    assert lines[-3:] == ["<!-- end of policy -->", "", "below"]
    assert "old" not in lines


@pytest.mark.parametrize("name", ["first-policy.json", "policy.json"])
def test_what_is_shipped_tells_of_every_class(tool, name: str) -> None:
    found = json.loads((FOLDER / name).read_text())
    assert set(found["classes"]) | set(found["quiet"]) == {entry.name for entry in CATALOGUE}
    assert found["captions"] == tool.CAPTIONS
    assert set(found["policy"]) == set(found["real"]) == {key for key, _, _ in tool.ROWS}
