"""``--clip``: one motion of a file with several, by its name."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import motionkit
from motionkit.clips.convert.targets import write_file
from motionkit.errors import MotionkitError
from motionkit.formats.glb import write_glb
from motionkit.motion import Clip
from motionkit.motion.clip import choose_part

from ...made.bodies import walker
from ...made.bvh_files import write_bvh
from ...made.commands import assert_refused
from ...made.glb_files import Document, edit
from ...made.rigs import starter_rig
from ...made.samples import write_sample

NAMES = ("Armature|walk", "Armature|Run fast", "Armature|Idle (1)")


def hero(path: Path = Path("hero.glb"), names: tuple[str, ...] = NAMES) -> Path:
    """A file whose animations have 60, 59, ... frames."""
    write_glb(path, starter_rig("walk"))

    def several(document: Document) -> None:
        (first,) = document["animations"]
        clock = document["accessors"][first["samplers"][0]["input"]]
        document["animations"] = []
        for number, name in enumerate(names):
            accessors = document["accessors"]
            shorter = {sampler["output"] for sampler in first["samplers"]}
            place = {output: len(accessors) + 1 + k for k, output in enumerate(sorted(shorter))}
            start = len(accessors)
            accessors.append({**clock, "count": clock["count"] - number})
            accessors += [{**accessors[output], "count": clock["count"] - number} for output in sorted(shorter)]
            samplers = [
                {**sampler, "input": start, "output": place[sampler["output"]]} for sampler in first["samplers"]
            ]
            document["animations"].append({**first, "name": name, "samplers": samplers})

    return edit(path, several)


@pytest.mark.parametrize(
    ("given", "frames"),
    [("Armature|Run fast", 59), ("Run fast", 59), ("run FAST", 59), ("walk", 60), ("Idle (1)", 58)],
)
def test_it_is_chosen_by_its_whole_or_short_name(cli, given, frames):
    hero()
    result = cli("convert", "hero.glb", "one.bvh", "--clip", given)
    assert result.exit_code == 0, result.output
    assert motionkit.read("one.bvh").frames == frames
    assert motionkit.read("hero.glb", clip=given).frames == frames
    result = cli("convert", "hero.glb", "out", "--to", "npz", "--clip", given)
    assert [path.name for path in Path("out").glob("*.npz")] == ["hero.npz"], result.output
    result = cli("view", "hero.glb", "--out", "v.html", "--no-open", "--clip", given, "--json")
    assert json.loads(result.stdout)["clips"] == 1


def test_the_error_names_them_and_the_option(cli):
    hero()
    assert_refused(
        cli("convert", "hero.glb", "one.bvh"),
        "hero.glb holds 3 motions: Armature|walk, Armature|Run fast and Armature|Idle (1)",
        "--clip NAME",
    )
    assert not Path("one.bvh").exists()
    with pytest.raises(MotionkitError) as caught:
        motionkit.read("hero.glb")
    assert "clip=NAME" in caught.value.fix


def test_pages_show_several(cli):
    hero()
    assert cli("convert", "hero.glb", "three.html").exit_code == 0


def test_a_name_that_is_not_there(cli):
    hero()
    assert_refused(
        cli("convert", "hero.glb", "one.bvh", "--clip", "Armature|wlak"),
        "hero.glb has no motion called 'Armature|wlak'",
        "did you mean Armature|walk?",
    )
    assert cli("view", "hero.glb", "--clip", "jump", "--no-open").exit_code == 2


def test_two_of_one_short_name_are_not_guessed():
    with pytest.raises(MotionkitError, match="'walk'"):
        choose_part(["A|walk", "B|walk"], "walk", "x.glb")
    assert choose_part(["A|walk", "B|walk"], "B", "x.glb") == 1
    assert choose_part(["walk", "A|walk"], "walk", "x.glb") == 0
    assert choose_part(["Walk", "walk"], "walk", "x.glb") == 1


def test_a_folder_gives_that_motion_of_each_file(cli):
    Path("in").mkdir()
    hero(Path("in/a.glb"))
    hero(Path("in/b.glb"), ("jump", "run"))
    write_bvh(Path("in/c.bvh"), 90)
    result = cli("convert", "in", "out", "--to", "npz", "--clip", "walk")
    assert result.exit_code == 1
    assert sorted(path.name for path in Path("out").glob("*.npz")) == ["a.npz", "c.npz"]
    assert "b.glb has no motion called 'walk'" in result.output


def test_where_it_cannot_act_it_is_refused(cli):
    write_bvh(Path("c.bvh"), 90)
    assert_refused(cli("convert", "c.bvh", "c.npz", "--clip", "walk"), "--clip walk does not act on these inputs")
    np.save("one.npy", walker(60).numpy())
    assert_refused(cli("convert", "one.npy", "one.npz", "--clip", "walk"), "holds one motion, which has no name")
    with pytest.raises(MotionkitError, match="does not act"):
        motionkit.read("c.bvh", clip="walk")


def test_arrays_and_results_of_several(cli):
    np.save("many.npy", np.stack([walker(60).numpy() + offset for offset in (0.0, 0.01, 0.02)]))
    assert motionkit.read("many.npy", clip="1").positions()[0, 0, 0] == pytest.approx(
        float(walker(60)[0, 0, 0]) + 0.01, abs=1e-6
    )
    write_sample(Path(), "mdm-results", 60).rename("results.npy")
    result = cli("convert", "results.npy", "one.bvh", "--clip", "sample00_rep00")
    assert result.exit_code == 0, result.output


def test_the_name_of_the_only_animation_is_known():
    assert choose_part(["Armature|walk"], "walk", "x.glb") == 0


def test_a_name_goes_from_file_to_file(tmp_path):
    write_file(tmp_path / "a.glb", "glb", [Clip(starter_rig("walk"), part="Take 001")])
    assert motionkit.read(tmp_path / "a.glb").part == "Take 001"
    assert motionkit.read(motionkit.read(tmp_path / "a.glb").save(tmp_path / "b.npz")).part == "Take 001"
    assert motionkit.read(motionkit.read(tmp_path / "b.npz").save(tmp_path / "c.glb")).part == "Take 001"
