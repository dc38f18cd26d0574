"""The page of self-play: three updates have the weights of the trainer's own class, to the bit."""

from __future__ import annotations

import torch

from motionkit_regions.self_play.settings import Sa2vaRlSettings
from motionkit_regions.self_play.step import SelfPlay
from motionkit_regions.self_play.train import Sa2vaRl

from .pages import run


def test_the_page_has_the_weights_of_the_class() -> None:
    page = run("self_play", UPDATES=3, REGIONS=4)
    trainer = Sa2vaRl(Sa2vaRlSettings.model_validate({"rollout": {"batch_size": 4}, "device": "cpu"}))
    trainer.prepare()
    play = SelfPlay(trainer.settings, trainer.policy, trainer.data, trainer.loops, trainer.rewards)
    play.measure()
    first = {name: value.clone() for name, value in trainer.policy.tensors().items()}
    metrics = [play.step(step) for step in (1, 2, 3)]
    last, ours = trainer.policy.tensors(), page["policy"].tensors()
    assert ours.keys() == last.keys()
    assert all(torch.equal(ours[name], last[name]) for name in last)
    trained = [name for group in trainer.groups.values() for name, _ in group]
    assert sum(not torch.equal(first[name], last[name]) for name in trained) > 0.9 * len(trained)
    for place in (1, 2):
        assert metrics[-1][f"loop{place}/reward_mean"] == float(page[f"reward_{place}"].mean())
    # Negative control: with another weight of the KL the weights differ, from the second update on.
    other = run("self_play", UPDATES=3, REGIONS=4, KL=1)["policy"].tensors()
    assert not all(torch.equal(other[name], last[name]) for name in last)
