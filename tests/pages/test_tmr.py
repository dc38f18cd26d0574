"""The page of TMR: three updates have the weights of the command's own class, to the bit."""

from __future__ import annotations

import pytest
import torch

from motionkit.config import choose_one
from motionkit.text_to_motion.tmr.settings import PretrainTMRSettings
from motionkit.text_to_motion.tmr.train import PretrainTMR

from .conftest import SMALL
from .pages import run


@pytest.mark.usefixtures("small_starter")
def test_the_page_has_the_weights_of_the_class() -> None:
    page = run("tmr", UPDATES=3, BATCH=16)
    data = choose_one("datasets", "starter", SMALL)
    trainer = PretrainTMR(PretrainTMRSettings(device="cpu", dataset=data, train={"batch_size": 16}))
    trainer.prepare()
    batches = trainer.batches()
    first = {name: value.clone() for name, value in trainer.tmr.state_dict().items()}
    torch.manual_seed(0)
    losses = [trainer.training.step(batches(step))["loss/total"] for step in (1, 2, 3)]
    last, ours = trainer.tmr.state_dict(), page["tmr"].state_dict()
    assert ours.keys() == last.keys()
    assert all(torch.equal(ours[name], last[name]) for name in last)
    assert losses[-1] == page["loss"].item()
    assert not any(torch.equal(first[name], last[name]) for name in last if "weight" in name)
    # Negative control: with another weight of a loss the weights differ.
    other = run("tmr", UPDATES=3, BATCH=16, CONTRASTIVE=1)["tmr"].state_dict()
    assert not all(torch.equal(other[name], last[name]) for name in last)
