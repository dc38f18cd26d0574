"""The page of the success classifier: three updates have the weights of the trainer's own class, to the bit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from motionkit_success.classification import classifier_auroc
from motionkit_success.classifier import Card, SuccessClassifier
from motionkit_success.step import ClassifierTraining
from motionkit_success.train_data import Augmentation, FrameBatches, Images

from .pages import run


@dataclass(frozen=True)
class Pictures:
    frames: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.frames)

    def read(self, index: NDArray[np.int64]) -> dict[str, NDArray[np.uint8]]:
        return {"base_camera": self.frames[index]}


def test_the_page_has_the_weights_of_the_class() -> None:
    page = run("success", UPDATES=3)
    frames, labels, train = page["frames"], page["labels"], page["train"]
    torch.manual_seed(0)
    classifier = SuccessClassifier.make(Card(architecture="small", cameras={"base_camera": (64, 64)}))
    first = {name: value.clone() for name, value in classifier.network.state_dict().items()}
    batches = FrameBatches(train, labels[train], 128, negatives=3.0, seed=0)
    training = ClassifierTraining(classifier, torch.from_numpy(labels), batches, updates=300)
    seen = Images(classifier.network, Pictures(frames), Augmentation(2, 0.1, 0), torch.device("cpu"))
    losses = [training.step(seen, step)["loss/total"] for step in (1, 2, 3)]
    last, ours = classifier.network.state_dict(), page["network"].state_dict()
    assert all(torch.equal(ours[name], last[name]) for name in last)
    assert losses[-1] == page["loss"].item()
    assert not any(torch.equal(first[name], last[name]) for name in last if "weight" in name)
    other = run("success", UPDATES=3, SEED=1)["network"].state_dict()
    assert not any(torch.equal(other[name], last[name]) for name in last if "weight" in name)


def test_the_page_learns(capsys: pytest.CaptureFixture[str]) -> None:
    page = run("success")
    auroc = classifier_auroc(page["seen"], torch.from_numpy(page["labels"][page["val"]]))
    assert auroc > 0.8
    assert f"AUROC {auroc:.4f}" in capsys.readouterr().out
