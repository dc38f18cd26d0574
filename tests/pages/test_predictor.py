"""The page of the motion predictor: three updates have the weights of the trainer's own class, to the bit."""

from __future__ import annotations

import torch

from motionkit_predictor.training.settings import TrainMplSettings
from motionkit_predictor.training.step import MplTraining
from motionkit_predictor.training.trainer import TrainMpl

from .pages import run


def test_the_page_has_the_weights_of_the_class() -> None:
    page = run("predictor", UPDATES=3, BATCH=16)
    trainer = TrainMpl(TrainMplSettings(encoder="none", device="cpu", train={"batch_size": 16}))
    trainer.prepare()
    training = MplTraining(trainer.settings, trainer.predictor, trainer.data.clips, trainer.batches)
    network = trainer.predictor.network
    first = {name: value.clone() for name, value in network.state_dict().items()}
    torch.manual_seed(0)
    losses = [training.step(step)["loss/total"] for step in (1, 2, 3)]
    last, ours = network.state_dict(), page["network"].state_dict()
    assert ours.keys() == last.keys()
    assert all(torch.equal(ours[name], last[name]) for name in last)
    assert losses[-1] == page["loss"]
    trained = [name for name, _ in network.named_parameters() if "weight" in name]
    assert not any(torch.equal(first[name], last[name]) for name in trained)
    # Negative control: with teacher forcing the weights differ.
    other = run("predictor", UPDATES=3, BATCH=16, FORCED=1)["network"].state_dict()
    assert not any(torch.equal(other[name], last[name]) for name in trained if name.startswith("delta"))
