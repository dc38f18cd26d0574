"""Changed copies as negatives: the losses, what is drawn where, training with them, several processes, bad input."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from motionkit.config import Chosen
from motionkit.contracts.dataset import TextClip
from motionkit.documents import read_json
from motionkit.errors import MotionkitError
from motionkit.motion import HUMANML
from motionkit.motion.changes.place_and_time import clip_features, clip_joints
from motionkit.motion.changes.registry import CHANGES, Scene
from motionkit.text import CAPTION_CHANGES, mirror_text, names_side, tempo_of, write_table
from motionkit.text_to_motion.data.starter import StarterOptions
from motionkit.text_to_motion.data.starter_clips import Starter
from motionkit.text_to_motion.evaluator import step as evaluator_loss
from motionkit.text_to_motion.evaluator.settings import PretrainEvaluatorSettings
from motionkit.text_to_motion.evaluator.train import PretrainEvaluator
from motionkit.text_to_motion.pairs.data import PairBatches
from motionkit.text_to_motion.pairs.negatives import Negatives
from motionkit.text_to_motion.pairs.settings import FAMILIES, kinds_of
from motionkit.text_to_motion.pairs.step import CopyScores, above_copies, info_nce
from motionkit.text_to_motion.tmr.model import encode_captions, encode_clips
from motionkit.text_to_motion.tmr.settings import PretrainTMRSettings
from motionkit.text_to_motion.tmr.step import contrastive, scores
from motionkit.text_to_motion.tmr.train import PretrainTMR
from motionkit.training.settings import RunSettings

from ...made.texts import HashEncoder
from ...made.threads import Member, in_threads
from ...made.toy_clips import ACTIONS, write_toy
from ...made.training import run_in_parts, run_trainer
from .test_pretrain_tmr import settings as toy_settings

ALL = "all"


def latents(rows: int = 6, *, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rows, 4, generator=generator), torch.randn(rows, 4, generator=generator)


# Losses


def test_without_copies_the_losses_are_the_published_ones_to_the_bit() -> None:
    text, motion = latents()
    sentences = F.normalize(latents(seed=1)[0], dim=-1)
    logits = F.normalize(text, dim=-1) @ F.normalize(motion, dim=-1).T / 0.1
    same = (sentences @ sentences.T > 0.6) & ~torch.eye(6, dtype=torch.bool)
    assert same.any()
    logits = logits.masked_fill(same, -torch.inf)
    target = torch.arange(6)
    published = (F.cross_entropy(logits, target) + F.cross_entropy(logits.T, target)) / 2
    assert torch.equal(contrastive(text, motion, temperature=0.1, sentences=sentences), published)
    distance = evaluator_loss.distances(text, motion)
    logits = (-distance / 2.0).masked_fill(same, -torch.inf)
    published = (F.cross_entropy(logits, target) + F.cross_entropy(logits.T, target)) / 2
    assert torch.equal(evaluator_loss.nce(distance, temperature=2.0, same=same), published)


def test_a_copy_is_a_further_column_of_its_own_row() -> None:
    """Against a loop over rows."""
    logits = latents(4)[0]
    none = -torch.inf
    beside = CopyScores(torch.tensor([0.3, none, 1.0, none]), torch.tensor([none, none, 0.5, 2.0]))
    total = 0.0
    for i in range(4):
        row, column = logits[i].tolist(), logits[:, i].tolist()
        row += [float(beside.motions[i])] if beside.motions[i] > none else []
        column += [float(beside.captions[i])] if beside.captions[i] > none else []
        total -= float(torch.log_softmax(torch.tensor(row), 0)[i] + torch.log_softmax(torch.tensor(column), 0)[i])
    assert float(info_nce(logits, beside)) == pytest.approx(total / 8, rel=1e-6)
    one_way = info_nce(logits, CopyScores(motions=beside.motions))
    assert float(info_nce(logits)) < float(one_way) < float(info_nce(logits, beside))


def test_no_filter_leaves_a_copy_out() -> None:
    text, motion = latents(3)
    sentences = torch.ones(3, 1)  # every other pair is a false negative
    assert float(contrastive(text, motion, temperature=0.1, sentences=sentences)) == 0.0
    copies = motion.flip(-1)
    beside = CopyScores(motions=scores(text, copies, temperature=0.1))
    found = contrastive(text, motion, temperature=0.1, sentences=sentences, copies=beside)
    own = scores(text, motion, temperature=0.1)
    assert float(found) == pytest.approx(float(F.softplus(beside.motions - own).mean()) / 2, rel=1e-5)


def test_copies_score_below_their_pair() -> None:
    own = torch.tensor([1.0, 2.0])
    beside = CopyScores(torch.tensor([1.0, -torch.inf]), torch.tensor([3.0, 0.0]))
    expected = (torch.log(torch.tensor(2.0)) + torch.log1p(torch.exp(torch.tensor([2.0, -2.0]))).sum()) / 2
    assert float(above_copies(own, beside)) == pytest.approx(float(expected), rel=1e-6)
    assert float(above_copies(own, CopyScores())) == 0.0


def test_copies_are_wrong_pairs_of_the_evaluator() -> None:
    """A copy costs what the published loss takes for one wrong pair, and nothing from the margin on."""
    text, motion = latents(4)
    distance = evaluator_loss.distances(text, motion)
    same = torch.zeros(4, 4, dtype=torch.bool)
    wrong = evaluator_loss.hinge(distance, 1, margin=10.0, same=same) - distance.diagonal().square().mean()
    beside = CopyScores(motions=evaluator_loss.scores(text, motion.roll(-1, 0), temperature=2.0))
    found = evaluator_loss.copies_apart(beside, temperature=2.0, margin=10.0)
    assert float(found) == pytest.approx(float(wrong), rel=1e-5)
    far = CopyScores(captions=torch.tensor([-5.0, -torch.inf, -4.5]))
    assert float(evaluator_loss.copies_apart(far, temperature=2.0, margin=10.0)) == pytest.approx(1 / 3)


def test_rows_without_a_copy_have_a_gradient_without_nan() -> None:
    text, motion = (rows.requires_grad_() for rows in latents(3))
    apart = partial(evaluator_loss.copies_apart, temperature=1.0, margin=10.0)
    there = torch.tensor([True, False, False])
    for score in (partial(scores, temperature=0.1), partial(evaluator_loss.scores, temperature=1.0)):
        copies = torch.where(there[:, None], motion.flip(-1), motion.new_zeros(()))
        beside = CopyScores(motions=score(text, copies).masked_fill(~there, -torch.inf))
        (info_nce(text @ motion.T, beside) + above_copies(score(text, motion), beside) + apart(beside)).backward()
        assert text.grad.isfinite().all()
        assert motion.grad.isfinite().all()


# Settings


def test_kinds_by_name_and_family() -> None:
    assert kinds_of("none", starter=True) == kinds_of("auto", starter=False) == {}
    assert kinds_of("auto", starter=True) == kinds_of("all", starter=False)
    assert kinds_of("side=0.5, noise", starter=False) == {"mirrored": 0.5 * FAMILIES["side"]["mirrored"], "noise": 1.0}
    assert {name for family in FAMILIES.values() for name in family} <= CHANGES.keys() | CAPTION_CHANGES.keys()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mean-pose=x", "mean-pose is x"),
        ("mean-pose=-1", "above 0"),
        ("mean-pose,stillness", "mean-pose is named twice"),
        ("mean-pose,,noise", "no name"),
        ("all,noise", "all stands alone"),
        ("mean-pose=nan", "above 0"),
    ],
)
def test_settings_that_cannot_be_read(text: str, message: str) -> None:
    with pytest.raises(MotionkitError, match=message):
        PretrainTMRSettings.model_validate({"train": {"negatives": text}})


# What is drawn


@pytest.fixture(scope="module")
def starter() -> Starter:
    return Starter(StarterOptions(clips=432, val_clips=64, test_clips=144))


def negatives(clips: Any, kinds: str, **changes: Any) -> Negatives:
    options = {"share": 1.0, "skeleton": HUMANML, "fps": 20.0, "max_length": 196, "seed": 3, "crop_share": 0.5}
    return Negatives(clips, kinds_of(kinds, starter=False), **{**options, **changes})


def batches(clips: Any, size: int = 144, **changes: Any) -> PairBatches:
    return PairBatches(clips, batch_size=size, max_length=196, seed=3, crop_share=0.5, **changes)


def test_copies_are_made_where_their_kind_applies(starter: Starter) -> None:
    clips = starter.clips("train")
    batch = batches(clips)(1)
    everything = slice(0, len(batch.rows))
    made = negatives(clips, "mirrored").motions(batch, everything)
    assert made is not None
    assert made.places == [place for place, text in enumerate(batch.captions) if names_side(text)]
    made = negatives(clips, "tempo").motions(batch, everything)
    assert made is not None
    assert {place for place, text in enumerate(batch.captions) if tempo_of(text) == "slow"} <= set(made.places)
    assert all(tempo_of(batch.captions[place]) for place in made.places)
    statues = negatives(clips, "mean-pose").motions(batch, everything)
    assert statues is not None
    assert len(statues.places) > 120
    # A statue: every joint stays where it is, seen from the root.
    for rows, length in zip(statues.features[:5], statues.lengths[:5].tolist(), strict=True):
        assert float(rows[:length, 67:193].std(0).max()) < 0.05  # rotations
    captions = negatives(clips, "text-side").captions(batch, everything)
    assert captions is not None
    assert captions.captions == [mirror_text(text) for text in batch.captions if names_side(text)]


def test_copies_are_a_function_of_seed_clip_and_pass(starter: Starter) -> None:
    clips = starter.clips("train")
    make = batches(clips, 72)
    first, second = negatives(clips, ALL), negatives(clips, ALL)
    for step in (1, 2):
        first.motions(make(step), slice(0, 72))
    own, other = (one.motions(make(3), slice(0, 72)) for one in (first, second))
    assert torch.equal(own.features, other.features)
    assert own.places == other.places
    # Passes take turns; the pass after the last kept copy sees the first again.
    kept = first._count
    batch = make(3)
    again, next_pass = (first.motions(replace(batch, epoch=epoch), slice(0, 72)) for epoch in (kept, 1))
    assert torch.equal(again.features, own.features)
    assert next_pass.features.shape != own.features.shape or not torch.equal(next_pass.features, own.features)
    # A process makes the copies of its own rows.
    part = second.motions(batch, slice(36, 72))
    assert part.places == [place for place in own.places if place >= 36]
    places = [own.places.index(place) for place in part.places]
    longest = int(part.lengths.max())
    assert torch.equal(part.features, own.features[places, :longest])


def test_what_does_not_fit_into_memory_is_made_anew(starter: Starter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("motionkit.text_to_motion.pairs.negatives._MEMORY", 1)
    clips = starter.clips("train")
    batch = batches(clips, 16)(1)
    one = negatives(clips, "mean-pose")
    made = one.motions(batch, slice(0, 16))
    assert not one._cache
    assert torch.equal(one.motions(batch, slice(0, 16)).features, made.features)


def test_a_clip_with_many_captions_does_not_undo_what_is_kept_of_all(starter: Starter) -> None:
    clips = list(starter.clips("train"))[:16]
    wordy = replace(clips[0], captions=tuple(f"{clips[0].captions[0]} {n}" for n in range(9)))
    one = negatives([wordy, *clips[1:]], "mean-pose")
    batch = batches([wordy, *clips[1:]], 16)(1)
    first = one.motions(batch, slice(0, 16))
    assert len(one._cache) == 16
    assert torch.equal(one.motions(replace(batch, epoch=1), slice(0, 16)).features, first.features)
    assert len(one._cache) == 16


def test_batches_are_the_same_with_and_without(starter: Starter) -> None:
    clips = starter.clips("train")
    plain, varied = batches(clips, 32)(5), batches(clips, 32, mirror=0.5, resize=0.2, skeleton=HUMANML)(5)
    assert plain.rows == varied.rows
    assert torch.equal(plain.lengths, varied.lengths)
    turned = varied.varied.mirrored
    assert 4 < int(turned.sum()) < 28
    assert varied.captions == [
        mirror_text(text) if mirrored else text for text, mirrored in zip(plain.captions, turned.tolist(), strict=True)
    ]
    # Joints of the varied clips are the mirrored and resized joints.
    for place in range(8):
        length = int(plain.lengths[place])
        old, new = clip_joints([plain.features[place, :length], varied.features[place, :length]], HUMANML)
        if turned[place]:
            old = old[:, list(HUMANML.mirror_order)] * torch.tensor([-1.0, 1.0, 1.0])
        torch.testing.assert_close(new, old * varied.varied.sizes[place], rtol=0, atol=2e-5)
    left_out = batches(clips, 32, mirror=1.0, unmirrored=frozenset(plain.captions[:4]))(5)
    assert not left_out.varied.mirrored[:4].any()
    assert left_out.captions[:4] == plain.captions[:4]


def test_copies_are_varied_as_their_clips(starter: Starter) -> None:
    clips = starter.clips("train")
    plain, varied = batches(clips, 16)(1), batches(clips, 16, mirror=0.5, resize=0.2)(1)
    one = negatives(clips, "mean-pose", crop_share=0.0)
    before, after = (one.motions(batch, slice(0, 16)) for batch in (plain, varied))
    torch.testing.assert_close(after.features, varied.varied.motions(before.features, before.places))
    assert not torch.equal(after.features, before.features)


# Training


@pytest.fixture(autouse=True)
def _minilm(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for MiniLM, which reads changed captions; the table of the starter's own captions is the real one."""
    monkeypatch.setattr("motionkit.text._load.MiniLMEncoder", lambda *_, **__: HashEncoder(384, "minilm"))


def settings(kinds: str = ALL, **changes: Any) -> PretrainTMRSettings:
    base: dict[str, Any] = {
        "run": RunSettings(num_steps=4),
        "dataset": Chosen("datasets", "starter", StarterOptions(clips=288, val_clips=64, test_clips=144)),
        "model": {"latent_dim": 16, "layers": 1, "num_heads": 2, "ff_size": 32, "dropout": 0.0},
        "train": {"batch_size": 32, "val_clips": 64, "negatives": kinds},
        "device": "cpu",
    }
    return PretrainTMRSettings(**{**base, **changes})


def prepared(config: PretrainTMRSettings) -> PretrainTMR:
    trainer = PretrainTMR(config)
    trainer.prepare()
    return trainer


trained = partial(run_trainer, PretrainTMR, "pretrain tmr")


def test_the_starter_has_them_by_itself_and_another_dataset_has_not(tmp_path) -> None:
    trainer = prepared(settings("auto"))
    assert trainer.negatives.kinds == kinds_of("all", starter=True)
    assert (trainer.mirror, trainer.resize) == (0.5, 0.15)
    assert "shuffled-pieces" in trainer.describe()["negatives"]
    assert set(trainer.training.losses(trainer.batches()(1))) == {"contrastive", "latent", "negatives"}
    plain = prepared(settings("none"))
    assert plain.negatives is None
    assert plain.batches()(1).varied is None
    assert set(plain.training.losses(plain.batches()(1))) == {"contrastive", "latent"}
    root = tmp_path / "toy"
    root.mkdir()
    write_toy(root, train=16, val=16)
    write_table(root / "table.safetensors", [f"someone {a}" for a in ACTIONS], torch.randn(8, 384), encoder="toy")
    toy = prepared(toy_settings(root))  # type: ignore[no-untyped-call]
    assert toy.negatives is None


def test_a_clip_whose_side_cannot_be_read_is_not_mirrored(tmp_path) -> None:
    """Its caption would stay as it is: a hand that is the other one in the mirror would count as the caption's."""
    root = tmp_path / "toy"
    root.mkdir()
    write_toy(root, train=16, val=16)
    german, chinese = "jemand winkt mit der linken Hand", "一个人挥左手"
    for n, file in enumerate(sorted((root / "texts").glob("*.txt"))):
        file.write_text(f"{(german, chinese)[n % 2]}#x/X#0.0#0.0\n")
    known = [german, chinese, mirror_text(chinese)]
    write_table(root / "table.safetensors", known, torch.randn(len(known), 384), encoder="toy")
    trainer = prepared(toy_settings(root, train={"batch_size": 8, "mirror": 1.0, "negatives": "mirrored,mean-pose"}))
    assert trainer.unmirrored == {german}
    captions = [text for step in (1, 2) for text in trainer.batches()(step).captions]
    assert set(captions) == {german, mirror_text(chinese)}
    assert any("in other languages are not mirrored" in note for note in trainer.notes)


def test_the_loss_is_that_of_the_copies() -> None:
    """The trainer's parts against the formula on latents that are encoded one at a time."""
    trainer = prepared(settings())
    trainer.tmr.eval()
    batch = trainer.batches()(1)
    everything = slice(0, 32)
    with torch.no_grad():
        parts = trainer.training.losses(batch)

        def encoded(rows: Tensor, lengths: Tensor) -> Tensor:
            alone = [row[None, :length] for row, length in zip(rows, lengths.tolist(), strict=True)]
            return torch.cat([trainer.tmr.encode_motion(row, torch.ones(row.shape[:2]).bool()).mu for row in alone])

        text = trainer.tmr.encode_tokens(trainer.tmr.text_model.encode(batch.captions)).mu
        motion = encoded(batch.features, batch.lengths)
        own = F.cosine_similarity(text, motion)
        copies, captions = trainer.negatives.motions(batch, everything), trainer.negatives.captions(batch, everything)
        copied = encoded(copies.features, copies.lengths)
        retold = trainer.tmr.encode_tokens(trainer.tmr.text_model.encode(captions.captions)).mu
        pairs = F.cosine_similarity(text[copies.places], copied) - own[copies.places]
        retellings = F.cosine_similarity(retold, motion[captions.places]) - own[captions.places]
        expected = (F.softplus(pairs / 0.1).sum() + F.softplus(retellings / 0.1).sum()) / 32
    assert len(captions.places) >= 5
    assert float(parts["negatives"]) == pytest.approx(float(expected), rel=1e-4)
    plain = prepared(settings("none", train={"batch_size": 32, "negatives": "none", "mirror": 0.5, "resize": 0.15}))
    plain.tmr.load_state_dict(trainer.tmr.state_dict())
    plain.tmr.eval()
    with torch.no_grad():
        assert float(plain.training.losses(batch)["contrastive"]) < float(parts["contrastive"])


@pytest.mark.parametrize("make", [PretrainTMR, PretrainEvaluator])
def test_shares_of_processes_add_up(make: Any) -> None:
    # Threads share the global random numbers, so weights drawn in one may differ from those of the other; processes
    # have numbers of their own. All take the weights of the first.
    weights: dict[str, Tensor] = {}

    def work(world: Member | None) -> tuple[dict[str, float], dict[str, Tensor]]:
        if make is PretrainTMR:
            trainer: Any = PretrainTMR(settings())
        else:
            base = settings()
            small = {"movement_hidden": 8, "movement": 8, "motion_hidden": 8, "text_hidden": 8, "dropout": 0.0}
            trainer = PretrainEvaluator(
                PretrainEvaluatorSettings(
                    run=base.run,
                    dataset=base.dataset,
                    train=base.train,
                    device="cpu",
                    words={"dropout": 0.0, "noise": 0.0},
                    model=small,
                )
            )
        if world is not None:
            trainer.world = world
        trainer.prepare()
        if not weights:
            weights.update({name: value.clone() for name, value in trainer.model.state_dict().items()})
        trainer.model.load_state_dict(weights)
        parts = trainer.training.losses(trainer.batches()(2))
        torch.stack(list(parts.values())).sum().backward()
        gradients = {name: p.grad for name, p in trainer.model.named_parameters() if p.grad is not None}
        return {name: float(value.detach()) for name, value in parts.items()}, gradients

    alone, whole = work(None)
    shared = in_threads(2, work)
    for name, value in alone.items():
        assert sum(parts[name] for parts, _ in shared) == pytest.approx(value, rel=1e-4), name
    for name, gradient in whole.items():
        total = sum(found[name] for _, found in shared if name in found)
        torch.testing.assert_close(total, gradient, rtol=1e-3, atol=1e-5)


def test_a_trained_model_tells_statues_from_clips(tmp_path) -> None:
    seen = {}
    for kinds in ("none", "stillness"):
        config = settings(kinds, run=RunSettings(num_steps=30), optim={"learning_rate": 4e-3, "warmup_steps": 3})
        trainer, _ = trained(config, tmp_path / kinds)
        clips = trainer.val_clips
        scenes = [Scene(joints, HUMANML, 20.0) for joints in clip_joints([c.features for c in clips], HUMANML)]
        statues = clip_features([CHANGES["mean-pose"].make(scene) for scene in scenes], HUMANML)
        with torch.no_grad():
            texts = encode_captions(trainer.tmr, [clip.captions[0] for clip in clips])[0]
            real = (texts * encode_clips(trainer.tmr, [clip.features for clip in clips])).sum(-1)
            still = (texts * encode_clips(trainer.tmr, [rows.float() for rows in statues])).sum(-1)
        seen[kinds] = float((real - still).mean())
    assert seen["stillness"] > seen["none"] + 0.1


def test_resume_gives_the_same_bits_and_the_folder_names_the_kinds(tmp_path) -> None:
    config = settings(run=RunSettings(num_steps=4))
    whole, _ = trained(config, tmp_path / "whole")
    parts, _ = run_in_parts(PretrainTMR, "pretrain tmr", config, tmp_path / "parts", stop_after=2)
    for (name, a), b in zip(whole.tmr.state_dict().items(), parts.tmr.state_dict().values(), strict=True):
        assert torch.equal(a, b), name
    saved = read_json(tmp_path / "whole" / "tmr" / "config.json", dict)["training"]["train"]
    assert saved["negatives"] == kinds_of("all", starter=True)
    assert saved["mirror"] == 0.5


# Bad input


def told(clips: list[TextClip], kinds: str) -> list[str]:
    captions = list(dict.fromkeys(text for clip in clips for text in clip.captions))
    return negatives(clips, kinds).settle(captions, "mine", frozenset)


def test_what_cannot_be_changed_is_refused_or_said(starter: Starter) -> None:
    clips = list(starter.clips("train"))[:20]
    short = [replace(clip, features=clip.features[:12]) for clip in clips]
    for call, word in (
        (lambda: negatives(clips, "mean-poses"), "did you mean mean-pose? available: stillness, order, "),
        (lambda: negatives(clips, "stilness"), "did you mean stillness?"),
        (lambda: negatives(clips, "turned"), "'turned'"),
        (lambda: told(short, "shuffled-pieces"), "shuffled-pieces"),
    ):
        with pytest.raises(MotionkitError) as caught:
            call()
        assert word in caught.value.sentence()
    assert told(short, "shuffled-pieces,no-path") == [
        "no clip or caption of mine can be changed in these ways of --negatives: shuffled-pieces (clips are too short "
        "or hardly move, or captions name nothing of the kind in English). The other ways are used; there is nothing "
        "to do."
    ]
    german = [replace(clip, captions=(f"eine Person {number}",)) for number, clip in enumerate(clips)]
    notes = told(german, "mean-pose,tempo-2,text-direction")
    assert "in these ways of --negatives: tempo-2, text-direction (clips are" in notes[0]
    assert notes[1].startswith("20 of 20 captions are not English, such as ")


def test_changed_captions_that_a_table_lacks_are_left_out(starter: Starter) -> None:
    clips = starter.clips("train")
    one = negatives(clips, "text-side")
    captions = list(dict.fromkeys(text for clip in clips for text in clip.captions))
    notes = one.settle(captions, "mine", lambda texts: frozenset(texts[1:]))
    assert len(one.unreadable) == 1
    assert "1 of " in notes[0]
    assert "motionkit[text]" in notes[0]
    batch = batches(clips, len(clips))(1)
    made = one.captions(batch, slice(0, len(clips)))
    assert not one.unreadable & set(made.captions)
