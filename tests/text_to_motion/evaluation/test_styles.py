"""Styles among captions, and whether an evaluator finds a motion's own among them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from torch import Tensor

from motionkit import load_dataset
from motionkit.text_to_motion.evaluation.styles import captions_of, style_chance, style_hits, styles_of

from ...made.toy_clips import write_toy

WALKS = ("a person walks", "a person walks like an old person", "A person walks happily.", "a person walks exhausted")


def test_a_content_has_a_plain_caption_and_three_styles() -> None:
    found = styles_of([*WALKS, "a person jumps", "a person jumps happily", "a person sits"])
    assert set(found) == set(WALKS[1:]), "one style of jumping says nothing, and the plain caption names none"
    assert {styles.captions[0] for styles in found.values()} == {WALKS[0]}
    for caption, styles in found.items():
        assert styles.captions[styles.own] == caption
        assert len(styles.captions) == 4


@pytest.mark.parametrize(
    "endings",
    [
        ("forward", "backwards", "to the left"),
        ("and then sits", "and waves", "then jumps"),
        ("twice", "three times", "two steps"),
        ("with the left arm", "with both hands", "on one foot"),
    ],
)
def test_a_direction_a_count_a_limb_and_a_further_action_are_no_styles(endings: tuple[str, ...]) -> None:
    assert styles_of(["he goes", *(f"he goes {ending}" for ending in endings)]) == {}
    assert (
        styles_of(["he goes", "he goes sadly", "he goes proudly", *(f"he goes {ending}" for ending in endings)]) == {}
    )


def test_a_style_may_stand_before_the_verb() -> None:
    early = ("an old person walks", "a person sadly walks", "A limping person walks.", "in a proud way a person walks")
    found = styles_of(["a person walks", *early])
    assert set(found) == set(early)
    assert {styles.captions[0] for styles in found.values()} == {"a person walks"}
    assert len(found["an old person walks"].captions) == 5
    both = styles_of([*WALKS, "an old person walks"])
    assert len(both["an old person walks"].captions) == 5, "with those at the end in one content"
    left = [f"{who} walks to the left" for who in ("a person", "an old person", "a sad person", "a proud person")]
    assert styles_of(left)[left[1]].captions[0] == left[0]


@pytest.mark.parametrize(
    "captions",
    [
        ("he throws a ball", "he throws a red ball", "he throws a big ball", "he throws a heavy ball"),
        ("a man walks", "the first man walks", "a second man walks", "a third man walks", "another man walks"),
        ("he walks to a door", "he walks to a big door", "he walks to a red door", "he walks to a far door"),
        ("a man waves", "a man and a boy waves", "a man jumps and waves", "a man sits and waves"),
        ("the left arm rises", "the left lower arm rises", "two arms rises", "arm rises"),
    ],
)
def test_objects_other_persons_and_further_actions_are_no_styles(captions: tuple[str, ...]) -> None:
    assert styles_of(captions) == {}


def test_a_caption_belongs_to_the_longest_content() -> None:
    moods = ("sadly", "happily", "proudly")
    both = [f"he walks{turn}{mood}" for turn in ("", " in a curve") for mood in ("", *(f" {one}" for one in moods))]
    found = styles_of(both)
    assert found["he walks sadly"].captions == ("he walks", *(f"he walks {mood}" for mood in sorted(moods)))
    curve = found["he walks in a curve sadly"].captions
    assert curve == ("he walks in a curve", *(f"he walks in a curve {mood}" for mood in sorted(moods)))


@pytest.mark.parametrize("captions", [(), ("", "..."), ("walk", "run"), ("sadly", "happily", "like a thug", "proudly")])
def test_captions_of_one_word_and_styles_alone_have_no_content(captions: tuple[str, ...]) -> None:
    assert styles_of(captions) == {}
    assert styles_of(["walk", "walk sad", "walk proud", "walk old"])["walk old"].own == 1


def test_a_motion_is_ranked_among_the_styles_of_its_content() -> None:
    styles = styles_of(WALKS)
    places = {caption: float(number) for number, caption in enumerate(styles[WALKS[1]].captions)}

    def encode(texts: Sequence[str]) -> Tensor:
        return torch.tensor([[places[text]] for text in texts])

    own = places[WALKS[1]]
    motions = torch.tensor([[own - 0.4], [own - 0.6], [own - 0.5], [torch.nan], [0.0]])
    texts = [WALKS[1]] * 4 + ["a person jumps"]
    found = style_hits(styles, texts, motions, encode)
    assert found[:3].tolist() == [1.0, 0.0, 0.5], "a tie counts by its expectation"
    assert found[3:].isnan().all()
    assert style_chance(styles, texts) == 0.25
    assert style_chance(styles, texts[4:]) != style_chance(styles, texts[4:]), "NaN where none names a style"


def test_captions_of_a_folder_are_read_without_its_motions(tmp_path: Path) -> None:
    folder = write_toy(tmp_path)
    dataset = load_dataset("humanml", root=folder)
    wanted = [text for split in ("val", "train") for clip in dataset.clips(split) for text in clip.captions]  # type: ignore[arg-type]
    for file in (folder / "new_joint_vecs").iterdir():
        file.unlink()
    assert sorted(captions_of(load_dataset("humanml", root=folder), "val")) == sorted(wanted)
