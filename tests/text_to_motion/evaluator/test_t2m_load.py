"""Opening an evaluator: released layouts, motionkit's own, and a clear refusal of whatever is none."""

from __future__ import annotations

import json
import pickle
import shutil

import numpy as np
import pytest
import torch

from motionkit.errors import MotionkitError
from motionkit.starter import weights_path
from motionkit.text_to_motion.evaluator.files import is_native, load_evaluator, open_evaluator, save_evaluator
from motionkit.text_to_motion.evaluator.model import EvaluatorSizes, T2MEvaluator, WordTable
from motionkit.text_to_motion.tmr.files import load_tmr

from ...made.evaluators import WORDS, networks, release, statistics, vocabulary

MODEL = "t2m/text_mot_match"
LENGTHS = torch.tensor([40, 24, 60])


def motions(width=263):
    return torch.randn(3, 60, width, generator=torch.Generator().manual_seed(1))


def refused(*args, **kwargs):
    with pytest.raises(MotionkitError) as caught:
        load_evaluator(*args, **kwargs)
    assert caught.value.code == 2
    return f"{caught.value.message} {caught.value.why} {caught.value.fix}"


@pytest.mark.parametrize(
    ("inside", "below"),
    [("", ""), ("", "t2m"), ("", MODEL), ("checkpoints", ""), ("", "t2m/text_mot_match/model/finest.tar")],
)
def test_released_layouts(tmp_path, inside, below):
    release(tmp_path / inside)
    model = load_evaluator(tmp_path / inside / below)
    assert (model.latent, len(model.mean), model.words.width) == (6, 263, 300)
    assert not model.training
    assert model.encode_motions(motions(), LENGTHS).isfinite().all()
    assert torch.equal(open_evaluator(tmp_path / inside / below).mean, model.mean)


def test_recorded_file_with_statistics_of_mdm(shared, tmp_path):
    """The dataset folder of MDM's repository holds the statistics, a folder ``glove`` beside it the words."""
    file = shared / "fixtures/mdm/evaluator_tiny_t2m/checkpoints/t2m/text_mot_match/model/finest.tar"
    stats = shared / "fixtures/mdm/mini_humanml3d/dataset"
    target = tmp_path / "mdm" / "t2m/text_mot_match/model/finest.tar"
    target.parent.mkdir(parents=True)
    shutil.copy(file, target)
    vocabulary(tmp_path / "mdm" / "glove")
    assert "no mean and std of the evaluator beside" in refused(target)
    named = load_evaluator(target, stats=stats)
    (tmp_path / "mdm" / "dataset").mkdir()
    for part in ("mean", "std"):
        shutil.copy(stats / f"t2m_{part}.npy", tmp_path / "mdm" / "dataset")
    found = load_evaluator(target)
    assert torch.equal(found.std, named.std)
    np.testing.assert_allclose(found.std.numpy(), np.load(stats / "t2m_std.npy"), rtol=1e-6)


def test_kit(tmp_path):
    model = load_evaluator(release(tmp_path, "kit"))
    assert len(model.mean) == 251
    assert model.encode_motions(motions(251), LENGTHS).shape == (3, 6)
    with pytest.raises(MotionkitError, match="251 features"):
        model.encode_motions(motions(), LENGTHS)


def test_two_datasets_in_one_folder(tmp_path):
    release(tmp_path, "kit")
    release(tmp_path, "t2m")
    assert "2 evaluators" in refused(tmp_path)
    assert len(load_evaluator(tmp_path / "kit").mean) == 251


def test_statistics_of_the_other_dataset(tmp_path):
    release(tmp_path, "kit")
    assert "has 263 values, this evaluator reads 251" in refused(tmp_path, stats=statistics(tmp_path / "other", 263))


def test_statistics_of_the_dataset(tmp_path):
    release(tmp_path)
    std = np.full(263, 0.3)
    np.save(tmp_path / "t2m/Comp_v6_KLD01/meta/std.npy", std)
    assert "statistics of the dataset, not the evaluator's" in refused(tmp_path)
    std[-4:] = 0.01
    std[7] = 0
    np.save(tmp_path / "t2m/Comp_v6_KLD01/meta/std.npy", std)
    assert "not positive" in refused(tmp_path)


@pytest.mark.parametrize(("name", "share"), [("t2m", 0.855), ("kit", 0.0176)])
def test_statistics_of_either_dataset(tmp_path, name, share):
    """Contacts are on for 86 % of HumanML3D's frames and 2 % of KIT's; the evaluators' spread is 25 times smaller."""
    release(tmp_path, name)
    meta = next(tmp_path.glob(f"{name}/Comp_v6_KLD*/meta"))
    mean, std = np.load(meta / "mean.npy"), np.load(meta / "std.npy")
    mean[-4:] = share
    np.save(meta / "mean.npy", mean)
    for divided, fits in ((25, True), (5, True), (1, False)):
        std[-4:] = np.sqrt(share * (1 - share)) / divided
        np.save(meta / "std.npy", std)
        if fits:
            assert len(load_evaluator(tmp_path).std) == len(std)
        else:
            assert "statistics of the dataset, not the evaluator's" in refused(tmp_path)


def test_a_link_finds_what_lies_beside_it(tmp_path):
    """A store of weights with the file alone, and a link to it in a folder with statistics and words."""
    release(tmp_path / "release")
    file = tmp_path / "release/t2m/text_mot_match/model/finest.tar"
    (tmp_path / "store").mkdir()
    stored = file.rename(tmp_path / "store" / "blob")
    file.symlink_to(stored)
    assert load_evaluator(file).latent == 6
    # And the other way: a link alone, whose file has them.
    whole = release(tmp_path / "whole")
    link = tmp_path / "elsewhere" / "finest.tar"
    link.parent.mkdir()
    link.symlink_to(whole / "t2m/text_mot_match/model/finest.tar")
    assert load_evaluator(link).latent == 6


def test_words_missing(tmp_path):
    release(tmp_path)
    (tmp_path / "glove" / "our_vab_idx.pkl").unlink()
    text = refused(tmp_path)
    assert "our_vab_idx.pkl missing" in text
    shutil.rmtree(tmp_path / "glove")
    text = refused(tmp_path)
    assert "our_vab_data.npy, our_vab_words.pkl, our_vab_idx.pkl missing" in text
    assert "glove.zip" in text
    assert "--glove" in text
    words = vocabulary(tmp_path / "elsewhere" / "glove")
    assert load_evaluator(tmp_path, glove=words).words.rows["walk"] == 6
    assert load_evaluator(tmp_path, glove=words.parent).words.width == 300
    assert "reads 300" in refused(tmp_path, glove=vocabulary(tmp_path / "narrow", width=50))


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("our_vab_words.pkl", {"a": 1}, "not a vocabulary"),
        ("our_vab_words.pkl", ["sos", "eos"], "has no unk"),
        ("our_vab_words.pkl", [*WORDS, "zebra"], "does not fit"),
        ("our_vab_idx.pkl", {word: row + 9 for row, word in enumerate(WORDS)}, "do not fit its vectors"),
        ("our_vab_idx.pkl", dict.fromkeys(WORDS, "x"), "does not fit"),
    ],
)
def test_damaged_words(tmp_path, name, value, message):
    release(tmp_path)
    (tmp_path / "glove" / name).write_bytes(pickle.dumps(value))
    assert message in refused(tmp_path)


def test_words_are_not_executed(tmp_path):
    release(tmp_path)

    class Evil:
        def __reduce__(self):
            return (open, (str(tmp_path / "written"), "w"))

    (tmp_path / "glove" / "our_vab_words.pkl").write_bytes(pickle.dumps([Evil()]))
    refused(tmp_path)
    assert not (tmp_path / "written").exists()


def test_a_tmr_is_no_evaluator(shared, tmp_path):
    for file in (
        ".",
        "last_weights",
        "last_weights/text_encoder.pt",
        "variants/components.pt",
        "variants/lightning_last.ckpt",
    ):
        text = refused(shared / "fixtures/tmr/tiny" / file)
        assert "is a TMR, not the text-to-motion evaluator" in text
        assert "--reward tmr-dense --reward.weights" in text


def test_folders_of_ours_that_are_something_else():
    for folder in (weights_path("tmr"), weights_path("judge")):
        assert "is a TMR, not the text-to-motion evaluator" in refused(folder)
    assert "an MDM diffusion model" in refused(weights_path("mdm"))


def test_an_evaluator_is_no_tmr(tmp_path):
    save_evaluator(tmp_path / "run" / "evaluator", own())
    file = release(tmp_path) / "t2m/text_mot_match/model/finest.tar"
    for place in (tmp_path / "run", tmp_path / "run/evaluator/model.safetensors", tmp_path / "t2m", file):
        with pytest.raises(MotionkitError, match=r"is not a TMR encoder: it is the Guo et al\.") as caught:
            load_tmr(place)
    assert f"--reward mdm-matching --reward.weights {file}" in caught.value.fix


def test_other_files(shared, tmp_path):
    assert "does not exist" in refused(tmp_path / "nothing")
    assert "holds no evaluator" in refused(tmp_path)
    policy = next((shared / "fixtures/mdm/tiny_trans_enc").glob("*.pt"))
    assert "an MDM diffusion model" in refused(policy)


def test_incomplete_files(tmp_path):
    release(tmp_path)
    file = tmp_path / "t2m/text_mot_match/model/finest.tar"
    whole = torch.load(file, weights_only=True)
    torch.save({name: part for name, part in whole.items() if name != "movement_encoder"}, file)
    assert "it has no movement_encoder" in refused(file)
    part = dict(whole["text_encoder"])
    part.pop("gru.bias_hh_l0")
    torch.save({**whole, "text_encoder": part}, file)
    assert "1 of 19 tensors missing: gru.bias_hh_l0" in refused(file)
    part.pop("pos_emb.weight")
    part.pop("input_emb.weight")
    torch.save({**whole, "text_encoder": part}, file)
    assert "is not the text-to-motion evaluator" in refused(file)


SIZES = EvaluatorSizes(263, 12, 10, 8, 8, 6, word=16)


def own():
    parts = networks(SIZES)
    table = WordTable(torch.randn(len(WORDS), 16), {word: row for row, word in enumerate(WORDS)})
    mean, std = torch.randn(263), torch.rand(263) + 0.5
    model = T2MEvaluator(
        parts["movement_encoder"], parts["motion_encoder"], parts["text_encoder"], mean, std, table, sizes=SIZES
    )
    return model.eval()


@pytest.mark.parametrize("half", [False, True])
def test_our_own_folder(tmp_path, half):
    model = own()
    save_evaluator(tmp_path / "run" / "evaluator", model, extra={"training": {"seed": 1}}, half=half)
    assert is_native(tmp_path / "run" / "evaluator")
    for place in ("run", "run/evaluator", "run/evaluator/model.safetensors"):
        loaded = load_evaluator(tmp_path / place)
        atol = 2e-3 if half else 0
        with torch.no_grad():
            for ours, theirs in (
                (model.encode_motions(motions(), LENGTHS), loaded.encode_motions(motions(), LENGTHS)),
                (model.encode_texts(["a man walks", "wave"]), loaded.encode_texts(["a man walks", "wave"])),
            ):
                torch.testing.assert_close(theirs, ours, rtol=0, atol=atol)
    config = json.loads((tmp_path / "run" / "evaluator" / "config.json").read_text())
    assert config["training"] == {"seed": 1}
    assert "has its own words" in refused(tmp_path / "run", glove=vocabulary(tmp_path / "glove"))


def test_our_own_folder_damaged(tmp_path):
    save_evaluator(tmp_path, own())
    config = json.loads((tmp_path / "config.json").read_text())
    for words in (None, {"a": "b"}, {"a": 1}):
        (tmp_path / "config.json").write_text(json.dumps({**config, "words": words}))
        assert "words" in refused(tmp_path) or "vocabulary" in refused(tmp_path)
