"""`pretrain tmr`: losses at parity, learning, determinism, resume, what it writes."""

from __future__ import annotations

import shutil
from functools import partial

import numpy as np
import pytest
import torch

from motionkit.config import Chosen
from motionkit.contracts.dataset import record_of
from motionkit.contracts.open_model import open_model, trained_on
from motionkit.errors import MotionkitError
from motionkit.motion import HUMANML
from motionkit.runs import Run
from motionkit.text import write_table
from motionkit.text_to_motion.data.folder import HumanML
from motionkit.text_to_motion.data.humanml import HumanMLOptions
from motionkit.text_to_motion.pairs.data import PairBatches
from motionkit.text_to_motion.pairs.train import statistics
from motionkit.text_to_motion.tmr.files import load_tmr
from motionkit.text_to_motion.tmr.model import Latent
from motionkit.text_to_motion.tmr.settings import PretrainTMRSettings
from motionkit.text_to_motion.tmr.step import contrastive, kl_latents, reconstruction
from motionkit.text_to_motion.tmr.train import PretrainTMR
from motionkit.training.settings import RunSettings

from ...made.commands import assert_refused
from ...made.toy_clips import ACTIONS, write_toy
from ...made.training import run_in_parts, run_trainer


@pytest.mark.parametrize("name", ["tiny", "real_L2"])
def test_losses_equal_the_recorded_ones(shared, name):
    folder = shared / "fixtures" / "tmr" / name
    io = {k: torch.as_tensor(v) for k, v in np.load(folder / "io.npz").items()}
    text, motion = Latent(io["text_mu"], io["text_logvar"]), Latent(io["motion_mu"], io["motion_logvar"])
    parts = {
        "recons": reconstruction(io["decoded_from_text_mu"], io["decoded_from_motion_mu"], io["motion_norm"]),
        "kl": kl_latents(text, motion),
        "latent": torch.nn.functional.smooth_l1_loss(text.mu, motion.mu),
        "contrastive": contrastive(text.mu, motion.mu, temperature=0.1, sentences=io["sent_emb"], threshold=0.8),
        "contrastive_nofilter": contrastive(text.mu, motion.mu, temperature=0.1),
    }
    for part, value in parts.items():
        torch.testing.assert_close(value, io[f"loss_{part}"], rtol=1e-5, atol=0, msg=part)
    total = parts["recons"] + 1e-5 * (parts["kl"] + parts["latent"]) + 0.1 * parts["contrastive"]
    torch.testing.assert_close(total, io["loss_loss"], rtol=1e-5, atol=0)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Toy clips and a table of text embeddings."""
    root = tmp_path_factory.mktemp("toy")
    write_toy(root)
    vectors = torch.nn.functional.normalize(
        torch.randn(len(ACTIONS), 384, generator=torch.Generator().manual_seed(0)), dim=-1
    )
    write_table(root / "table.safetensors", [f"someone {a}" for a in ACTIONS], vectors, encoder="toy")
    return root


def settings(data, **changes):
    base = {
        "run": RunSettings(num_steps=40),
        "dataset": Chosen("datasets", "humanml", HumanMLOptions(root=data)),
        "model": {"latent_dim": 32, "layers": 1, "num_heads": 2, "ff_size": 64},
        "text": {"encoder": "stored", "model": str(data / "table.safetensors")},
        "loss": {"recons": 1.0},
        "train": {"batch_size": 16, "val_clips": 40, "short": 36},
        "optim": {"learning_rate": 2e-3, "warmup_steps": 2},
        "device": "cpu",
    }
    return PretrainTMRSettings(**{**base, **changes})


trained = partial(run_trainer, PretrainTMR, "pretrain tmr")


@pytest.fixture(scope="module")
def finished(data, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "whole"
    return out, *trained(settings(data), out)


def test_it_learns_to_retrieve(finished):
    _, _, parts = finished
    result = parts["metrics"]
    assert result["retrieval/t2m/r1_32_chance"] == 100 / 32
    # 32 candidates hold 4 clips of each of 8 actions, which the captions cannot tell apart: 75 % is all there is.
    assert result["retrieval/t2m/r3_32"] > 60.0
    assert result["retrieval/t2m/r1_same"] > 80.0
    before, after = (parts["heldout"]["retrieval/t2m/r3_32"][key] for key in ("before", "after"))
    assert after - before > 20.0


def test_what_it_writes_loads_and_scores_the_same(finished, data):
    out, trainer, _ = finished
    # The run folder and the folder in it mean the same.
    for path in (out, out / "tmr"):
        loaded = load_tmr(path, text_model=str(data / "table.safetensors"))
        clips = trainer.val_clips[:3]
        features = torch.nn.utils.rnn.pad_sequence([clip.features for clip in clips], batch_first=True)
        mask = torch.arange(features.shape[1]) < torch.tensor([len(clip.features) for clip in clips])[:, None]
        with torch.no_grad():
            expected = trainer.tmr.eval().encode_motion(features, mask).mu
            torch.testing.assert_close(loaded.encode_motion(features, mask).mu, expected, rtol=0, atol=0)
        torch.testing.assert_close(
            loaded.encode_texts(["someone sits"]), trainer.tmr.encode_texts(["someone sits"]), rtol=0, atol=0
        )


def test_the_folder_says_what_it_was_trained_on(finished, data):
    out, _, _ = finished
    record = load_tmr(out, text_model=str(data / "table.safetensors")).trained_on
    assert (record.name, record.root) == ("humanml", str(data.resolve()))
    assert not record.differs(record_of(HumanML(HumanMLOptions(root=data), skeleton=HUMANML, name="humanml")))


def test_resume_gives_the_same_bits(data, tmp_path):
    model = {"latent_dim": 16, "layers": 1, "num_heads": 2, "variational": True}
    config = settings(data, run=RunSettings(num_steps=6), model=model)
    whole, _ = trained(config, tmp_path / "whole")
    parts, _ = run_in_parts(PretrainTMR, "pretrain tmr", config, tmp_path / "parts", stop_after=3)
    for (name, a), b in zip(whole.tmr.state_dict().items(), parts.tmr.state_dict().values(), strict=True):
        assert torch.equal(a, b), name


def test_a_run_that_was_stopped_has_the_tmr_of_its_last_checkpoint(data, tmp_path):
    config = settings(data, run=RunSettings(num_steps=6), checkpoint={"every": 2})
    trainer, parts = trained(config, tmp_path / "run", stop_after=3)
    assert not parts
    found = load_tmr(tmp_path / "run", text_model=str(data / "table.safetensors"))
    for name, value in trainer.tmr.state_dict().items():
        assert torch.equal(found.state_dict()[name], value), name
    assert torch.equal(found.std, trainer.tmr.std)
    assert found.trained_on == record_of(settings(data).dataset.build())
    assert not trained_on(str(tmp_path / "run")).leave_out(sorted(trainer.items.items)).places
    model = open_model(str(tmp_path / "run"))
    assert (model.plugin, model.run.status) == ("tmr-dense", "interrupted")


def test_a_run_without_a_checkpoint_has_no_tmr_yet(tmp_path):
    with Run.create("pretrain tmr", {}, out=tmp_path / "new"), pytest.raises(MotionkitError) as caught:
        load_tmr(tmp_path / "new")
    assert "has no TMR yet" in caught.value.message
    assert caught.value.fix == f"motionkit pretrain tmr --resume {tmp_path / 'new'}"
    with Run.create("pretrain mdm", {}, out=tmp_path / "mdm"), pytest.raises(MotionkitError) as caught:
        load_tmr(tmp_path / "mdm")
    assert "is a run of `motionkit pretrain mdm`, which trains no TMR" in caught.value.message


def test_without_reconstruction_there_is_no_decoder(data):
    model = {"latent_dim": 16, "num_heads": 2}
    trainer = PretrainTMR(settings(data, loss={"recons": 0}, model=model))
    trainer.prepare()
    assert trainer.tmr.motion_decoder is None
    assert "kl" not in trainer.training.losses(trainer.batches()(1))
    assert trainer.describe()["train_clips"] == 64


def test_batches_are_a_function_of_the_step(data):
    trainer = PretrainTMR(settings(data))
    trainer.prepare()
    clips = trainer.train_clips
    first, second = (
        PairBatches(clips, batch_size=16, max_length=196, seed=1, crop_share=1.0, crop_min=32) for _ in "ab"
    )
    for step in (1, 2, 5):
        first(step)
    a, b = first(6), second(6)
    assert a.captions == b.captions
    assert torch.equal(a.features, b.features)
    assert int(a.lengths.min()) >= 32
    keys = [clip for step in range(1, 5) for clip in first(step).captions]
    assert len(keys) == 64


def test_statistics_have_a_floor():
    class Clip:
        features = torch.cat([torch.zeros(10, 1), torch.linspace(-1, 1, 10)[:, None]], 1)

    mean, std = statistics([Clip(), Clip()], floor=torch.tensor([0.5, 0.1]))
    assert mean.tolist() == pytest.approx([0.0, 0.0], abs=1e-6)
    assert std.tolist() == pytest.approx([0.5, float(Clip.features[:, 1].std(correction=0))])


def test_halves_share_no_clip(data):
    halves = []
    for half in ("first", "second"):
        trainer = PretrainTMR(settings(data, train={"half": half, "batch_size": 8}))
        trainer.prepare()
        halves.append({clip.key for clip in trainer.train_clips})
    assert not halves[0] & halves[1]
    assert len(halves[0] | halves[1]) == 64


def test_unusable_text_table(data, tmp_path):
    write_table(tmp_path / "other.safetensors", ["nothing"], torch.zeros(1, 384), encoder="toy")
    trainer = PretrainTMR(settings(data, text={"encoder": "stored", "model": str(tmp_path / "other.safetensors")}))
    with pytest.raises(MotionkitError, match="no stored embedding"):
        trainer.prepare()


def test_grouping_by_length_changes_nothing(data, monkeypatch):
    parts = []
    for groups in (1, 4):
        monkeypatch.setattr("motionkit.text_to_motion.tmr.step._GROUPS", groups)
        trainer = PretrainTMR(settings(data))
        trainer.prepare()
        trainer.tmr.eval()
        parts.append(trainer.training.losses(trainer.batches()(1)))
    for name, value in parts[0].items():
        torch.testing.assert_close(parts[1][name], value, rtol=1e-5, atol=1e-7, msg=name)


def test_true_motions_score_above_shuffled_ones(finished):
    """Verification test 23: AUC > 0.9 of held-out motions with their own text against another action's."""
    from motionkit.motion import HUMANML, MotionBatch
    from motionkit.text import Prompt
    from motionkit.text_to_motion.rewards.components import DenseOptions
    from motionkit.text_to_motion.rewards.joint_space import TmrDense

    _, trainer, _ = finished
    clips = trainer.val_clips
    # Two clips make a composite of two segments, as GRPO asks for them.
    pairs = [(a, b) for a, b in zip(clips[0::2], clips[1::2], strict=True) if a.captions != b.captions]
    motions = [torch.cat([a.features, b.features]) for a, b in pairs]
    batch = MotionBatch(
        torch.nn.utils.rnn.pad_sequence(motions, batch_first=True),
        torch.tensor([len(motion) for motion in motions]),
        skeleton=HUMANML,
        fps=20.0,
    )
    frames = [(len(a.features), len(b.features)) for a, b in pairs]
    own = [Prompt((a.captions[0], b.captions[0]), f) for (a, b), f in zip(pairs, frames, strict=True)]
    swapped = [Prompt((b.captions[0], a.captions[0]), f) for (a, b), f in zip(pairs, frames, strict=True)]
    reward = TmrDense(DenseOptions(), space=trainer.tmr.eval().requires_grad_(False))
    good, bad = reward.score(batch, own).total, reward.score(batch, swapped).total
    trainer.tmr.requires_grad_(True)
    assert float((good[:, None] > bad[None, :]).double().mean()) > 0.9


def test_contract(data, tmp_path):
    from motionkit.testing import check_trainer

    few = settings(data, run=RunSettings(num_steps=2)).model_dump(mode="json", exclude_unset=True)
    check_trainer("pretrain.tmr", tmp_path, settings=few)


def test_a_caption_may_be_empty(data, tmp_path):
    root = shutil.copytree(data, tmp_path / "data")
    (root / "texts" / "train000.txt").write_text("")
    trainer = PretrainTMR(settings(root))
    trainer.prepare()
    assert trainer.describe()["train_clips"] == 63


def all_alike(root):
    for file in (root / "texts").iterdir():
        file.write_text("he walks#he/PRON walk/VERB#0.0#0.0\n")


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda root: (root / "train.txt").write_text("train000\ntrain001\n"), "at least 4"),
        (lambda root: np.save(root / "new_joint_vecs/val003.npy", np.full((50, 263), np.nan, "f4")), "cannot be used"),
        (all_alike, "he walks"),
        (lambda root: np.save(root / "Mean.npy", np.zeros(251, "f4")), "two vectors of one width|251 values"),
    ],
)
def test_bad_data(data, tmp_path, change, word):
    root = shutil.copytree(data, tmp_path / "data")
    change(root)
    with pytest.raises(MotionkitError, match=word) as caught:
        PretrainTMR(settings(root)).prepare()
    assert caught.value.code == 2


# Going on from another TMR


def test_it_goes_on_from_its_own_weights_and_statistics(finished, data, tmp_path):
    out, first, parts = finished
    default = {"latent_dim": 128}  # the shape is that of the TMR; what is left at its default asks for nothing
    again = settings(data, init=str(out), model=default, run=RunSettings(num_steps=1), loss={"recons": 0})
    trainer = PretrainTMR(again)
    trainer.prepare()
    assert trainer.tmr.latent == 32
    assert trainer.tmr.motion_decoder is None
    assert torch.equal(trainer.tmr.mean, first.tmr.mean)
    assert torch.equal(trainer.tmr.std, first.tmr.std)
    for name, value in trainer.tmr.state_dict().items():
        assert torch.equal(value, first.tmr.state_dict()[name]), name
    assert trainer.validate() == pytest.approx(parts["metrics"], rel=1e-5)
    assert trainer.inputs["init"] == first.tmr.fingerprint()  # a resume is refused when they have changed
    _, after = trained(again, tmp_path / "second")
    before = after["heldout"]["retrieval/t2m/r3_32"]["before"]
    assert before == pytest.approx(parts["metrics"]["retrieval/t2m/r3_32"], rel=1e-5)
    assert load_tmr(tmp_path / "second", text_model=str(data / "table.safetensors")).latent == 32


def test_it_goes_on_from_the_published_layout(data, tmp_path, shared):
    """Three files, one frame per token, a Gaussian latent, statistics beside them, another text model's width."""
    vectors = torch.randn(len(ACTIONS), 768, generator=torch.Generator().manual_seed(0))
    write_table(tmp_path / "wide.safetensors", [f"someone {a}" for a in ACTIONS], vectors, encoder="toy")
    folder = shared / "fixtures" / "tmr" / "real_L2"
    text = {"model": str(tmp_path / "wide.safetensors")}
    config = settings(data, init=str(folder), model={}, loss={"recons": 0}, text=text, run=RunSettings(num_steps=1))
    trainer, _ = trained(config, tmp_path / "run")
    given = load_tmr(folder, text_model=text["model"])
    assert (trainer.tmr.patch, trainer.training.variational) == (1, True)
    assert torch.equal(trainer.tmr.mean, given.mean)
    old, new = given.state_dict(), trainer.tmr.state_dict()
    moved = [float((old[name] - new[name]).abs().max()) for name in new]
    assert 0 < max(moved) < 0.01  # one step of AdamW from there
    assert load_tmr(tmp_path / "run", text_model=text["model"]).latent == given.latent


def test_a_default_that_was_typed_is_refused_where_it_does_not_fit(finished, data):
    """A run's config.json holds it as well, and asks for nothing."""
    out, _, _ = finished
    trainer = PretrainTMR(settings(data, init=str(out), model={"layers": 3}))
    trainer.prepare()
    trainer.typed = {"model.layers"}
    with pytest.raises(MotionkitError, match="layers") as caught:
        trainer.prepare()
    assert caught.value.code == 2
    trainer.typed = {"model.dropout", "seed"}
    trainer.prepare()


def test_the_command_line_says_which_settings_were_typed(cli):
    assert_refused(
        cli("pretrain", "tmr", "--init", "starter", "--model.layers", 3, "--dry-run", "--device", "cpu"),
        "the layers of this TMR is 2, not 3",
        "leave model.layers out",
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": {"layers": 2}}, "layers"),
        ({"model": {}, "loss": {"recons": 1.0}, "init": "nowhere"}, "nowhere"),
        ({"model": {}, "init": "starter:evaluator"}, "TMR encoder"),
    ],
)
def test_another_shape_than_the_given_one_is_refused(finished, data, changes, message):
    out, _, _ = finished
    with pytest.raises(MotionkitError, match=message) as caught:
        PretrainTMR(settings(data, **{"init": str(out), **changes})).prepare()
    assert "--reward" not in caught.value.fix
    assert "leave --init" not in caught.value.fix, "its default is no TMR"
