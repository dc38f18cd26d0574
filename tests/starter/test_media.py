"""The scripts behind the film of the README and the page of pairs."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

import motionkit
from motionkit.starter import CATALOGUE
from motionkit.text import Prompt
from tests.made.scripts import load_script

FOLDER = Path(__file__).resolve().parents[2] / "tests" / "studies" / "media"


def script(name: str) -> ModuleType:
    return load_script(FOLDER / f"{name}.py")


@pytest.fixture(scope="module")
def dataset():
    return motionkit.load_dataset("starter")


def test_film_finds_what_a_prompt_asks_for(dataset) -> None:
    tool = script("before_after")
    names = (
        "kick/back-left",
        "jump/up",
        "walk/turn-back",
        "walk/circle-right",
        "walk/normal",
        "jacks/hips",
        "knee/left",
    )
    captions = {entry.name: entry.captions[0] for entry in CATALOGUE}
    prompts = [Prompt((captions["nod/yes"], captions[name]), (40, 40), name) for name in names]
    found = {kind: tool.asking_for(classes, prompts, dataset) for kind, classes in tool.KINDS.items()}
    assert found == {"kick": [0], "jump": [1], "walk with a turn": [2, 3]}


def test_page_puts_the_real_clip_where_it_says(dataset) -> None:
    """Only the numbers of the sides that are not real change with the policy."""
    torch.set_num_threads(1)
    tool = script("blind_test")
    policy = motionkit.load_policy("starter", dataset=dataset)
    page, other = (tool.page(policy, dataset, 3, seed) for seed in (0, 1))
    sides = re.findall(r'data-real="([AB])"', page)
    positions = re.findall(r'"positions":"([^"]+)"', page)
    captions = re.findall(r'aria-label="([^"]+)"><motionkit-player', page)
    assert len(sides) == len(captions) == 3
    assert len(positions) == 6
    clips = {clip.key: clip for clip in dataset.clips("test")}
    places = tool.chosen(dataset, 3, np.random.default_rng(0))
    for number, place in enumerate(places):
        clip = dataset.clips("test")[place]
        assert clips[clip.key].captions[0] == captions[number]
        real = re.findall(r'"positions":"([^"]+)"', tool.card(1, "", [clip.features] * 2, "A", 20.0))[0]
        pair = positions[2 * number : 2 * number + 2]
        assert [one == real for one in pair] == [side == sides[number] for side in "AB"]
    assert page != other
    assert "https://" not in page.replace("https://www.w3.org", "")
