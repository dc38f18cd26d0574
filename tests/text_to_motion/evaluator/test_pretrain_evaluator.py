"""`pretrain t2m-evaluator`: losses, words, learning, determinism, resume, what it writes."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch

from motionkit.config import Chosen
from motionkit.contracts.dataset import TextClip
from motionkit.errors import MotionkitError
from motionkit.runs import Run, next_commands, peek
from motionkit.text_to_motion.crops import Crop
from motionkit.text_to_motion.data.humanml import HumanMLOptions
from motionkit.text_to_motion.evaluator.files import load_evaluator, open_evaluator
from motionkit.text_to_motion.evaluator.settings import PretrainEvaluatorSettings
from motionkit.text_to_motion.evaluator.step import (
    _thinned,
    distances,
    hinge,
    nce,
    same_caption,
)
from motionkit.text_to_motion.evaluator.train import (
    PretrainEvaluator,
    caption_tokens,
    starter_words,
)
from motionkit.training.settings import RunSettings

from ...made.evaluators import vocabulary
from ...made.toy_clips import ACTIONS, write_toy
from ...made.training import run_in_parts, run_trainer


def test_losses_by_hand():
    text, motion = (
        torch.tensor([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0]]),
        torch.tensor([[0.0, 0.0], [0.0, 0.0], [0.0, 3.0]]),
    )
    d = distances(text, motion)
    torch.testing.assert_close(d, torch.tensor([[0.0, 0, 3], [5, 5, 10**0.5], [1, 1, 2]]), rtol=1e-5, atol=1e-5)
    none = torch.zeros(3, 3, dtype=torch.bool)
    # Right pairs 0, 5, 2; with a shift of 1 the wrong ones are (0, 1), (1, 2), (2, 0).
    wrong = (4**2 + (4 - 10**0.5) ** 2 + 3**2) / 3
    assert float(hinge(d, 1, margin=4.0, same=none)) == pytest.approx((0 + 25 + 4) / 3 + wrong, rel=1e-5)
    same = none.clone()
    same[0, 1] = True
    less = ((4 - 10**0.5) ** 2 + 3**2) / 3
    assert float(hinge(d, 1, margin=4.0, same=same)) == pytest.approx((0 + 25 + 4) / 3 + less, rel=1e-5)
    assert float(hinge(d, 3, margin=4.0, same=none)) == pytest.approx((0 + 25 + 4) / 3, rel=1e-5)
    log = torch.log_softmax(-d / 2, 1).diagonal().mean() + torch.log_softmax(-d.T / 2, 1).diagonal().mean()
    assert float(nce(d, temperature=2.0, same=none)) == pytest.approx(-float(log) / 2, rel=1e-5)
    without = torch.log_softmax(-d[0, [0, 2]], 0)[0]
    assert float(nce(d, temperature=1.0, same=same)) < float(nce(d, temperature=1.0, same=none))
    assert float(-torch.log_softmax((-d).masked_fill(same, -torch.inf), 1)[0, 0]) == pytest.approx(-float(without))


def test_distances_have_a_gradient_at_zero():
    x = torch.zeros(2, 3, requires_grad=True)
    distances(x, torch.zeros(2, 3)).sum().backward()
    assert x.grad.isfinite().all()


def test_equal_captions_are_no_wrong_pairs():
    same = same_caption([("a/DET",), ("b/DET",), ("a/DET",)])
    assert same.nonzero().tolist() == [[0, 2], [2, 0]]


def test_words_of_the_starter():
    table = starter_words({"frob": ("frobnicate/VERB",)}, 48)
    assert table.width == 48
    assert {"sos", "eos", "unk", "walk", "frobnicate"} <= table.rows.keys()
    assert "walks" not in table.rows
    unit = torch.nn.functional.normalize(table.vectors, dim=-1)

    def cosine(a, b):
        return float(unit[table.rows[a]] @ unit[table.rows[b]])

    assert cosine("quickly", "fast") > cosine("quickly", "kneel") + 0.2
    assert float(table.vectors.square().mean()) == pytest.approx(1.0, abs=0.1)
    again = starter_words({"frob": ("frobnicate/VERB",)}, 48)
    assert torch.equal(table.vectors, again.vectors)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    root = tmp_path_factory.mktemp("toy")
    return write_toy(root)


def settings(data, **changes):
    base = {
        "run": RunSettings(num_steps=120),
        "dataset": Chosen("datasets", "humanml", HumanMLOptions(root=data)),
        "model": {"latent_dim": 16, "movement_hidden": 32, "movement": 32, "motion_hidden": 32, "text_hidden": 32},
        "words": {"width": 16, "dropout": 0.0, "noise": 0.0},
        "train": {"batch_size": 16, "val_clips": 40, "short": 36},
        "optim": {"learning_rate": 5e-3, "warmup_steps": 10},
        "device": "cpu",
    }
    return PretrainEvaluatorSettings(**{**base, **changes})


trained = partial(run_trainer, PretrainEvaluator, "pretrain t2m-evaluator")


@pytest.fixture(scope="module")
def finished(data, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "whole"
    return out, *trained(settings(data), out)


def test_it_learns_to_retrieve(finished):
    _, _, parts = finished
    # 32 candidates hold 4 clips of each of 8 actions, which the captions cannot tell apart: 75 % is all there is.
    assert parts["metrics"]["retrieval/t2m/r3_32"] > 60.0
    before, after = (parts["heldout"]["retrieval/t2m/r3_32"][key] for key in ("before", "after"))
    assert after - before > 20.0
    assert parts["table"]["rows"]


def test_true_pairs_are_nearer_than_false_ones(finished):
    _, trainer, _ = finished
    evaluator, clips = trainer.evaluator.eval(), trainer.val_clips
    features = torch.nn.utils.rnn.pad_sequence([clip.features for clip in clips], batch_first=True)
    with torch.no_grad():
        motions = evaluator.encode_crops(features, [Crop(i, 0, len(c.features)) for i, c in enumerate(clips)]).mu
        texts = evaluator.encode_tokens([trainer._tokens[clip.captions[0]] for clip in clips])
    table = torch.cdist(texts, motions)
    own = torch.tensor([[a.captions == b.captions for b in clips] for a in clips])
    assert float((table[own][:, None] < table[~own][None]).double().mean()) > 0.95


def test_what_it_writes_opens(finished, data):
    out, trainer, _ = finished
    loaded = open_evaluator(out)
    assert loaded.tagger == "auto"
    assert (loaded.trained_on.name, loaded.trained_on.root) == ("humanml", str(data.resolve()))
    clip = trainer.val_clips[0]
    tokens = [trainer._tokens[clip.captions[0]]]
    with torch.no_grad():
        ours, theirs = trainer.evaluator.eval(), loaded
        length = torch.tensor([len(clip.features)])
        for model in (ours, theirs):
            assert not model.training
        assert torch.equal(
            ours.encode_motions(clip.features[None], length), theirs.encode_motions(clip.features[None], length)
        )
        assert torch.equal(ours.encode_tokens(tokens), theirs.encode_tokens(tokens))


def test_what_to_type_next(finished, data):
    out, _, _ = finished
    # An evaluator is no reward: the tables of grpo are measured by it.
    assert next_commands(peek(out))[0] == (
        f"motionkit pretrain tmr --negatives all --dataset humanml --dataset.root {data} --out {out.with_name('tmr')}"
    )


def test_resume_gives_the_same_bits(data, tmp_path):
    config = settings(data, run=RunSettings(num_steps=6))
    whole, _ = trained(config, tmp_path / "whole")
    parts, _ = run_in_parts(PretrainEvaluator, "pretrain t2m-evaluator", config, tmp_path / "parts", stop_after=3)
    for (name, a), b in zip(whole.evaluator.state_dict().items(), parts.evaluator.state_dict().values(), strict=True):
        assert torch.equal(a, b), name


def test_a_run_that_was_stopped_has_the_evaluator_of_its_last_checkpoint(data, tmp_path):
    config = settings(data, run=RunSettings(num_steps=6), checkpoint={"every": 2})
    trainer, _ = trained(config, tmp_path / "run", stop_after=3)
    found, mine = load_evaluator(tmp_path / "run"), trainer.evaluator
    for name, value in mine.state_dict().items():
        assert torch.equal(found.state_dict()[name], value), name
    assert torch.equal(found.mean, mine.mean)
    assert torch.equal(found.words.vectors, mine.words.vectors)
    assert found.words.rows == mine.words.rows
    with Run.create("pretrain mdm", {}, out=tmp_path / "mdm"), pytest.raises(MotionkitError, match="no evaluator"):
        load_evaluator(tmp_path / "mdm")


def test_words_of_the_user(data, tmp_path):
    words = vocabulary(tmp_path / "glove", ("sos", "eos", "unk", "someone", *ACTIONS), width=12)
    trainer = PretrainEvaluator(settings(data, words={"glove": words}))
    trainer.prepare()
    assert trainer.evaluator.words.width == 12
    assert trainer.describe()["words"] == 12
    assert set(trainer.training.losses(trainer.batches()(1))) == {"hinge", "nce"}
    (tmp_path / "empty").mkdir()
    with pytest.raises(MotionkitError, match="our_vab_idx"):
        PretrainEvaluator(settings(data, words={"glove": tmp_path / "empty"})).prepare()


def test_the_published_loss_alone(data):
    trainer = PretrainEvaluator(settings(data, loss={"nce": 0, "hinge": 1}))
    trainer.prepare()
    assert set(trainer.training.losses(trainer.batches()(1))) == {"hinge"}


def test_words_are_left_out_at_their_rate(data):
    tokens = [f"w{number}/NOUN" for number in range(20)]
    generator = torch.Generator().manual_seed(0)
    kept = [_thinned(tokens, 0.3, generator) for _ in range(200)]
    assert sum(map(len, kept)) / 4000 == pytest.approx(0.7, abs=0.03)
    assert all(row == sorted(row, key=tokens.index) for row in kept)
    assert all(len(_thinned(["a/DET"], 0.99, generator)) == 1 for _ in range(20))

    def sentences(**words):
        trainer = PretrainEvaluator(settings(data, words={"width": 16, **words}))
        trainer.prepare()
        given = [("someone/NOUN", "walks/VERB")] * 50
        found = trainer.training._disturbed(given, torch.Generator().manual_seed(0))
        return found.words - trainer.evaluator.words.look_up(given).words if not words["dropout"] else found

    assert sentences(dropout=0, noise=0).abs().max() == 0
    assert float(sentences(dropout=0, noise=0.5).std()) == pytest.approx(0.5, rel=0.1)
    assert 3 <= sentences(dropout=0.5, noise=0).counts.double().mean() < 4


def test_tokens_of_the_dataset_are_used(data):
    trainer = PretrainEvaluator(settings(data))
    trainer.prepare()
    assert trainer._tokens["someone walks"] == ("someone/NOUN", "walks/VERB")

    plain = TextClip("", torch.zeros(1, 263), ("a man is walking",))
    assert caption_tokens([plain]) == ({"a man is walking": ("a/DET", "man/NOUN", "is/AUX", "walk/VERB")}, False)


def test_contract(data, tmp_path):
    from motionkit.testing import check_trainer

    few = settings(data, run=RunSettings(num_steps=2)).model_dump(mode="json", exclude_unset=True)
    check_trainer("pretrain.t2m-evaluator", tmp_path, settings=few)


def test_bad_data(data, tmp_path):
    import shutil

    root = tmp_path / "data"
    shutil.copytree(data, root)
    np.save(root / "new_joint_vecs" / "val003.npy", np.full((50, 263), np.nan, "f4"))
    with pytest.raises(MotionkitError, match="cannot be used") as caught:
        PretrainEvaluator(settings(root)).prepare()
    assert caught.value.code == 2
