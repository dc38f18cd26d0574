"""Retrieval by TMR's four protocols: against recorded values, and on a real model."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from motionkit import load_dataset
from motionkit.contracts.dataset import TextClip
from motionkit.errors import MotionkitError
from motionkit.metrics import dissimilar
from motionkit.text_to_motion.evaluation.retrieval import (
    measure_retrieval,
    open_retrieval,
    read_nsim,
    retrieval_protocols,
    right_action,
)


def test_every_protocol_direction_and_convention_is_the_recorded_one(shared: Path) -> None:
    folder = shared / "fixtures" / "tmr" / "metrics"
    arrays = {name: torch.from_numpy(value) for name, value in np.load(folder / "contrastive64.npz").items()}
    expected = json.loads((folder / "contrastive64.json").read_text())
    subset = arrays["nsim_idx"].tolist()
    found = retrieval_protocols(arrays["sims"], arrays["sent_emb"], subset, threshold=0.95, ties="average")
    names = {"normal": "normal", "threshold": "threshold_0.95", "nsim": "nsim", "guo": "guo"}
    for name, recorded in names.items():
        assert {key: round(value, 2) for key, value in found[name].items()} == expected[recorded]
    loose = retrieval_protocols(arrays["sims"], arrays["sent_emb"], subset, threshold=0.80, ties="average")
    assert {key: round(value, 2) for key, value in loose["threshold"].items()} == expected["threshold_0.80"]
    ties = retrieval_protocols(arrays["sims_ties"], arrays["sent_emb"], subset, threshold=0.95, ties="average")
    assert {key: round(value, 2) for key, value in ties["normal"].items()} == expected["ties_averaging"]
    ties = retrieval_protocols(arrays["sims_ties"], arrays["sent_emb"], subset, threshold=0.95, ties="optimistic")
    recorded = expected["ties_optimistic_t2m"]
    assert {key: round(ties["normal"][f"t2m/{key}"], 2) for key in recorded} == recorded


def test_unlike_items_are_those_a_plain_search_finds() -> None:
    sentences = torch.nn.functional.normalize(torch.randn(30, 5, generator=torch.Generator().manual_seed(1)), dim=-1)
    cosine = sentences @ sentences.T
    first = min(range(30), key=lambda i: max(float(cosine[i, j]) for j in range(30) if j != i))
    chosen = [first]
    while len(chosen) < 8:
        rest = [i for i in range(30) if i not in chosen]
        chosen.append(min(rest, key=lambda i: max(float(cosine[i, j]) for j in chosen)))
    assert dissimilar(sentences, 8) == sorted(chosen)
    assert dissimilar(sentences, 99) == list(range(30))


@pytest.fixture(scope="module")
def clips() -> list[TextClip]:
    return list(load_dataset("starter", val_clips=48).clips("val"))


def test_the_starter_retrieves_its_own_clips_whatever_their_order(clips: list[TextClip]) -> None:
    found, tmr = open_retrieval("starter")
    assert found.kind == "rewards"
    seen: list[int] = []
    result = measure_retrieval(tmr, clips, progress=seen.append)
    assert sum(seen) == 48
    assert result.candidates == {"normal": 48, "threshold": 48, "nsim": 48, "guo": 32}
    guo = result.protocols["guo"]["average"]
    assert guo["t2m"]["R03"] > 80 > 300 / 32
    for values in result.protocols.values():
        for way in ("t2m", "m2t"):
            assert values["optimistic"][way]["R01"] >= values["average"][way]["R01"]
    assert measure_retrieval(tmr, clips[::-1]).protocols == result.protocols
    rows = result.table("x")["rows"]
    assert len(rows) == 16
    assert all(len(row) == 9 for row in rows)


def test_few_clips_have_no_batches_of_32_and_say_so(clips: list[TextClip], tmp_path: Path) -> None:
    _, tmr = open_retrieval("starter")
    listed = tmp_path / "nsim_test.txt"
    listed.write_text("\n".join(clip.key for clip in clips[:5]) + "\nunknown\n")
    result = measure_retrieval(tmr, clips[:20], nsim=read_nsim(listed))
    assert "at least 32 clips, there are 20" in result.protocols["guo"]["why"]
    assert result.candidates["nsim"] == 5
    assert "n/a" in str(result.table("x"))
    with pytest.raises(MotionkitError, match="0 of the 1 clips of the nsim list"):
        measure_retrieval(tmr, clips[:20], nsim=["elsewhere"])


def test_what_is_no_tmr_is_refused_by_name() -> None:
    with pytest.raises(MotionkitError, match="retrieval measures a TMR") as error:
        open_retrieval(str(Path(__file__).parents[3] / "motionkit" / "starter" / "weights" / "mdm"))
    assert "eval text-to-motion" in error.value.fix


def test_the_first_hit_shows_the_right_action() -> None:
    """By hand: clips of one action take each other's place, equal places share."""
    actions = ["kick/left", "kick/left", "kick/right", ""]
    similarity = torch.tensor([[0.1, 0.9, 0.2, 0.0], [0.2, 0.3, 0.8, 0.0], [0.0, 0.5, 0.5, 0.9], [0.0, 0.0, 0.0, 1.0]])
    found = right_action(similarity, actions)
    # Texts: the other left kick; a right kick; half a left and half a right kick (the unknown clip is not found).
    assert found["t2m"] == pytest.approx(100 * (1 + 0 + 0.5) / 3)
    # Motions: text 1 of the same action; text 0 likewise; text 1, a left kick.
    assert found["m2t"] == pytest.approx(100 * 2 / 3)
    assert right_action(similarity, [""] * 4) == {}


def test_a_dataset_that_names_actions_gets_a_row(clips: list[TextClip]) -> None:
    dataset = load_dataset("starter", val_clips=48)
    _, tmr = open_retrieval("starter")
    result = measure_retrieval(tmr, clips, action=dataset.action)
    assert [row[0] for row in result.table("")["rows"]][-2:] == ["first hit shows the right action (48)"] * 2
    # 48 clips show 48 actions: only a clip's own caption is right.
    assert result.right_action["t2m"] == pytest.approx(result.protocols["normal"]["average"]["t2m"]["R01"])
    assert not measure_retrieval(tmr, clips).right_action
