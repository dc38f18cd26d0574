"""Opening a TMR: every layout, and a clear refusal of whatever is none."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import safetensors.torch
import torch

from motionkit.errors import MotionkitError
from motionkit.text import Prompt, load_encoder
from motionkit.text_to_motion.tmr import files as layout
from motionkit.text_to_motion.tmr.files import load_tmr, read_stats, save_tmr
from motionkit.text_to_motion.tmr.model import ActorSizes, TokenFolder, new_tmr, open_text_model

from ...made.texts import WordEncoder


def small(words=None, **more):
    """A TMR of 7 features."""
    words = words or WordEncoder(20, "words")
    return new_tmr(ActorSizes(7, 8, 16, 1, 2), torch.zeros(7), torch.ones(7), words, **more)


@pytest.fixture
def tiny(shared):
    return shared / "fixtures" / "tmr" / "tiny"


@pytest.fixture
def real(shared):
    return shared / "fixtures" / "tmr" / "real_L2"


def parts(tiny):
    return {
        n: torch.load(tiny / "last_weights" / f"{n}.pt", weights_only=True) for n in ("text_encoder", "motion_encoder")
    }


def refused(*args, **kwargs):
    with pytest.raises(MotionkitError) as caught:
        load_tmr(*args, text_model=WordEncoder(20, "words"), **kwargs)
    assert caught.value.code == 2
    return f"{caught.value.message} {caught.value.why} {caught.value.fix}"


def check(tmr, tiny):
    io = np.load(tiny / "io.npz")
    with torch.no_grad():
        mu = tmr.encode_motion(torch.as_tensor(io["motion_raw"]), torch.as_tensor(io["motion_mask"])).mu
    torch.testing.assert_close(mu, torch.as_tensor(io["motion_mu"]), rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    "name",
    [
        ".",
        "last_weights",
        "variants/components_movement_encoder.pt",
        "variants/model_prefixed.pt",
        "variants/lightning_last.ckpt",
    ],
)
def test_recorded_layouts(tiny, name):
    tmr = load_tmr(tiny / name, text_model=WordEncoder(20, "words"))
    check(tmr, tiny)
    assert tmr.motion_decoder is not None
    assert tmr.motion_encoder.sizes == ActorSizes(12, 16, 32, 2, 2)
    assert not tmr.training


def test_three_paths_with_or_without_the_decoder(tiny):
    weights = tiny / "last_weights"
    files = {n: weights / f"{n}.pt" for n in ("text_encoder", "motion_encoder")}
    check(load_tmr(**files, text_model=WordEncoder(20, "words")), tiny)
    with_decoder = load_tmr(**files, motion_decoder=weights / "motion_decoder.pt", text_model=WordEncoder(20, "words"))
    assert with_decoder.motion_decoder is not None
    wrapped = {**files, "motion_encoder": tiny / "variants" / "motion_encoder_wrapped.pt"}
    check(load_tmr(**wrapped, text_model=WordEncoder(20, "words")), tiny)


@pytest.mark.parametrize(
    ("layout", "suffix"),
    [("state_dict_keys", ".pth"), ("parallel", ".tar"), ("wrapped", ".ckpt"), ("numpy", ".pt"), ("no_decoder", ".pt")],
)
def test_layouts_of_the_guide(tiny, tmp_path, layout, suffix):
    nets = parts(tiny)
    flat = {f"{n}.{k}": v for n, t in nets.items() for k, v in t.items()}
    obj = {
        "state_dict_keys": {f"{n}_state_dict": t for n, t in nets.items()},
        "parallel": {"model": {f"module.{k}": v for k, v in flat.items()}},
        "wrapped": {"epoch": 3, "optimizer": {"state": {}}, "model": dict(nets)},
        "numpy": {k: v.numpy() for k, v in flat.items()},
        "no_decoder": nets,
    }[layout]
    for name in ("stats", "config.json"):
        source = tiny / name
        (shutil.copytree if source.is_dir() else shutil.copy)(source, tmp_path / name)
    torch.save(obj, tmp_path / f"weights{suffix}")
    check(load_tmr(tmp_path / f"weights{suffix}", text_model=WordEncoder(20, "words")), tiny)
    check(load_tmr(tmp_path, text_model=WordEncoder(20, "words")), tiny)


def test_each_network_wrapped_for_parallel_training(tiny, tmp_path):
    nets = {n: {f"module.{k}": v for k, v in t.items()} for n, t in parts(tiny).items()}
    torch.save(nets, tmp_path / "x.pt")
    check(load_tmr(tmp_path / "x.pt", stats=tiny / "stats", heads=2, text_model=WordEncoder(20, "words")), tiny)


def test_heads_come_from_config_or_default(tiny, real, tmp_path):
    assert load_tmr(real, text_model=WordEncoder(768, "words")).motion_encoder.sizes.heads == 4
    torch.save(parts(tiny), tmp_path / "x.pt")
    stats = tiny / "stats"
    assert load_tmr(tmp_path / "x.pt", stats=stats, text_model=WordEncoder(20, "words")).motion_encoder.sizes.heads == 4
    assert "5 attention heads do not divide" in refused(tmp_path / "x.pt", stats=stats, heads=5)


def test_heads_that_are_assumed_are_said(tiny, tmp_path, caplog):
    torch.save(parts(tiny), tmp_path / "x.pt")
    with caplog.at_level("INFO", "motionkit.tmr"):
        load_tmr(tmp_path / "x.pt", stats=tiny / "stats", heads=2, text_model=WordEncoder(20, "words"))
        load_tmr(tiny, text_model=WordEncoder(20, "words"))
        assert not caplog.records
        load_tmr(tmp_path / "x.pt", stats=tiny / "stats", text_model=WordEncoder(20, "words"))
    assert "4 are assumed" in caplog.text
    assert "--reward.heads N" in caplog.text


def test_swapped_files(real):
    weights = real / "last_weights"
    text = refused(text_encoder=weights / "motion_encoder.pt", motion_encoder=weights / "text_encoder.pt")
    assert "swapped" in text
    assert "exchange --reward.text-encoder and --reward.motion-encoder" in text


def test_a_guo_evaluator_is_refused_by_name(shared, tmp_path):
    recorded = shared / "fixtures/mdm/evaluator_tiny_t2m/checkpoints/t2m/text_mot_match/model/finest.tar"
    assert "Guo et al." in refused(recorded)
    # The same three names as TMR's component dictionary, with BiGRU networks inside.
    gru = torch.nn.GRU(4, 6, bidirectional=True)
    inner = {f"gru.{k}": v for k, v in gru.state_dict().items()} | {"hidden": torch.zeros(2, 1, 6)}
    inner["output_net.0.weight"] = torch.zeros(6, 12)
    movement = {"main.0.weight": torch.zeros(5, 4, 4), "out_net.weight": torch.zeros(5, 5)}
    fake = {"text_encoder": inner, "motion_encoder": inner, "movement_encoder": movement, "opt_text_encoder": {}}
    torch.save(fake, tmp_path / "looks_like_tmr.pth")
    text = refused(tmp_path / "looks_like_tmr.pth")
    assert "Guo et al." in text
    assert "random" in text
    assert "judge" not in text, "no command takes it yet"
    torch.save(inner, tmp_path / "motion_encoder.pt")
    torch.save(inner, tmp_path / "text_encoder.pt")
    assert "BiGRU" in refused(tmp_path)
    bare = {name: value for name, value in inner.items() if name.startswith("gru.")}
    torch.save({"text_encoder": bare, "motion_encoder": bare}, tmp_path / "bare.pt")
    assert "Guo et al." in refused(tmp_path / "bare.pt")


def test_other_look_alikes(shared, tiny, tmp_path):
    assert "MDM diffusion model" in refused(shared / "fixtures/mdm/tiny_trans_enc/model000000100.pt")
    assert "needs the text and the motion encoder" in refused(tiny / "last_weights" / "motion_encoder.pt")
    assert "does not exist" in refused(tmp_path / "nothing")
    assert "holds no TMR" in refused(tmp_path)


def test_a_missing_or_extra_tensor_is_named(tiny, tmp_path):
    nets = parts(tiny)
    del nets["motion_encoder"]["seqTransEncoder.layers.1.norm2.bias"]
    nets["motion_encoder"]["extra"] = torch.zeros(1)
    torch.save(nets, tmp_path / "x.pt")
    text = refused(tmp_path / "x.pt", stats=tiny / "stats", heads=2)
    assert "missing: seqTransEncoder.layers.1.norm2.bias" in text
    assert "unknown: extra" in text


def test_an_incomplete_folder_is_named(tiny, tmp_path):
    shutil.copy(tiny / "last_weights" / "motion_encoder.pt", tmp_path)
    assert "has no text_encoder file" in refused(tmp_path)


def test_text_model_of_another_width(tiny):
    with pytest.raises(MotionkitError, match="384 features per token"):
        load_tmr(tiny, text_model=WordEncoder(384, "words"))


def test_statistics(tiny, tmp_path):
    mean, std = read_stats(tiny / "stats", 12)
    np.save(tmp_path / "mean.npy", mean.numpy())
    np.save(tmp_path / "std.npy", std.numpy())
    again = read_stats(tmp_path, 12)
    assert torch.equal(again[0], mean)
    assert torch.equal(again[1], std)
    np.save(tmp_path / "mean.npy", mean.numpy().astype(">f8"))
    assert torch.equal(read_stats(tmp_path, 12)[0], mean)
    np.save(tmp_path / "std.npy", mean.numpy().astype("U"))
    for folder, width, word in ((tmp_path, 263, "263"), (tmp_path, 12, "ndarray"), (tmp_path / "none", 12, "no mean")):
        with pytest.raises(MotionkitError, match=word):
            read_stats(folder, width)
    shutil.copytree(tiny / "last_weights", tmp_path / "alone" / "a" / "b")
    assert "no mean and std found" in refused(tmp_path / "alone" / "a" / "b")


@pytest.fixture
def two_sets(tiny, tmp_path):
    """A folder of weights beside the statistics of two datasets, as TMR's repository has them."""
    for number, name in enumerate(("humanml3d", "kitml")):
        folder = tmp_path / "stats" / name / "guoh3dfeats"
        folder.mkdir(parents=True)
        torch.save(torch.full((12,), float(number)), folder / "mean.pt")
        torch.save(torch.ones(12), folder / "std.pt")
    shutil.copytree(tiny / "last_weights", tmp_path / "models" / "run" / "last_weights")
    return tmp_path


@pytest.mark.parametrize("prefix", ["", "/cluster/of/somebody/"])
@pytest.mark.parametrize(("name", "mean"), [("humanml3d", 0.0), ("kitml", 1.0)])
def test_statistics_are_those_that_the_weights_name(tiny, two_sets, name, mean, prefix):
    run = two_sets / "models" / "run"
    config = json.loads((tiny / "config.json").read_text())
    config["data"]["motion_loader"]["normalizer"]["base_dir"] = f"{prefix}stats/{name}/guoh3dfeats"
    (run / "config.json").write_text(json.dumps(config))
    assert load_tmr(run, text_model=WordEncoder(20, "words")).mean.tolist() == [mean] * 12
    # What the user names goes before what the weights name.
    stats = two_sets / "stats" / "humanml3d" / "guoh3dfeats"
    assert load_tmr(run, stats=stats, text_model=WordEncoder(20, "words")).mean.tolist() == [0.0] * 12
    shutil.rmtree(two_sets / "stats" / name)
    assert f"stats/{name}/guoh3dfeats, which its config.json names" in refused(run)


def test_statistics_of_two_datasets_and_nothing_to_choose_by(two_sets):
    text = refused(two_sets / "models" / "run", heads=2)
    assert "statistics of 2 datasets" in text
    assert f"--reward.stats {two_sets / 'stats/humanml3d/guoh3dfeats'}" in text


def test_layers_that_skip_numbers_take_no_memory(tiny, tmp_path):
    nets = parts(tiny)
    first = "seqTransEncoder.layers.0.linear1.weight"
    nets["motion_encoder"]["seqTransEncoder.layers.99999999.linear1.weight"] = nets["motion_encoder"][first]
    torch.save(nets, tmp_path / "x.pt")
    assert "not numbered from 0 on" in refused(tmp_path / "x.pt", stats=tiny / "stats", heads=2)


def test_a_network_that_its_tensors_do_not_fill_takes_no_memory(tiny, tmp_path, monkeypatch):
    class Weightless(layout.ActorEncoder):
        def __init__(self, sizes):
            super().__init__(sizes)
            assert self.tokens.is_meta

    nets = parts(tiny)
    nets["motion_encoder"]["projection.weight"] = torch.zeros(8000, 12)
    torch.save(nets, tmp_path / "x.pt")
    monkeypatch.setattr(layout, "ActorEncoder", Weightless)
    assert "does not fit Weightless" in refused(tmp_path / "x.pt", stats=tiny / "stats", heads=2)


def test_statistics_of_a_generator_are_refused(tmp_path):
    np.save(tmp_path / "Mean.npy", np.zeros(263, "f4"))
    np.save(tmp_path / "Std.npy", np.repeat(np.arange(1.0, 9.0), 33)[:263].astype("f4"))
    with pytest.raises(MotionkitError, match="statistics of a generator"):
        read_stats(tmp_path, 263)


def test_normalisation_bridge(tiny):
    """Features come in their own units; the generator's statistics play no part."""
    tmr = load_tmr(tiny, text_model=WordEncoder(20, "words"))
    x = torch.randn(4, 12, generator=torch.Generator().manual_seed(0))
    mean, std = (torch.load(tiny / "stats" / f"{n}.pt", weights_only=True) for n in ("mean", "std"))
    assert torch.equal(tmr.normalize(x), (x - mean) / (std + 1e-12))
    torch.testing.assert_close(tmr.denormalize(tmr.normalize(x)), x, rtol=1e-5, atol=1e-6)


def test_wrong_feature_width(tiny):
    with pytest.raises(MotionkitError) as caught:
        load_tmr(tiny, text_model=WordEncoder(20, "words")).check_width(torch.zeros(1, 4, 251))
    assert "KIT" in caught.value.why


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("variational", [False, True])
def test_native_folder_round_trip(tmp_path, half, variational):
    sizes = ActorSizes(7, 8, 16, 2, 2, variational)
    tmr = new_tmr(sizes, torch.arange(7.0), torch.arange(1.0, 8.0), WordEncoder(20, "words"), decoder=True, seed=3)
    save_tmr(tmp_path / "tmr", tmr, extra={"training": {"seed": 3}}, half=half)
    assert sorted(path.name for path in (tmp_path / "tmr").iterdir()) == ["config.json", "model.safetensors"]
    for path in (tmp_path, tmp_path / "tmr", tmp_path / "tmr" / "model.safetensors"):
        again = load_tmr(path, text_model=WordEncoder(20, "words"))
        assert again.motion_encoder.sizes == sizes
        for name, value in tmr.state_dict().items():
            torch.testing.assert_close(
                again.state_dict()[name], value.half().float() if half else value, rtol=0, atol=0
            )
        assert torch.equal(again.std, tmr.std)


@pytest.fixture
def with_clip(clip, tmp_path):
    """A TMR of ours that reads a CLIP folder."""
    encoder = load_encoder("clip", model=str(clip))
    tmr = small(encoder)
    save_tmr(tmp_path / "tmr", tmr)
    return tmp_path / "tmr"


def test_the_text_model_it_was_trained_with(with_clip, clip, other_clip, tmp_path):
    assert load_tmr(with_clip).text_model.source == str(clip)
    shutil.copytree(clip, tmp_path / "moved")
    assert load_tmr(with_clip, text_model=str(tmp_path / "moved")).text_model.name == "clip"
    with pytest.raises(MotionkitError) as error:
        load_tmr(with_clip, text_model=str(other_clip))
    assert "--reward.text-model DIR" in error.value.fix
    assert str(with_clip / "config.json") in error.value.message


def test_a_damaged_config_is_no_traceback(with_clip):
    (with_clip / "config.json").write_text('{"format": "motionkit-tmr", "text": 3}')
    with pytest.raises(MotionkitError, match="text model"):
        load_tmr(with_clip)


def test_a_native_folder_without_a_part(tmp_path):
    tmr = small()
    save_tmr(tmp_path, tmr)
    tensors = safetensors.torch.load_file(tmp_path / "model.safetensors")
    safetensors.torch.save_file(
        {k: v for k, v in tensors.items() if k.startswith("motion")}, tmp_path / "model.safetensors"
    )
    assert "has no text_encoder" in refused(tmp_path)


def test_new_weights_depend_on_the_seed_alone():
    build = [
        new_tmr(ActorSizes(7, 8, 16, 1, 2), torch.zeros(7), torch.ones(7), WordEncoder(20, "words"), seed=s)
        for s in (1, 1, 2)
    ]
    assert torch.equal(build[0].motion_encoder.tokens, build[1].motion_encoder.tokens)
    assert not torch.equal(build[0].motion_encoder.tokens, build[2].motion_encoder.tokens)


def test_each_text_is_encoded_once_whatever_the_company():
    words = WordEncoder(20, "words")
    tmr = small(words)
    together = tmr.encode_texts(["a b", "c", "a b"])
    assert words.asked == ["a b", "c"]
    assert torch.equal(together[0], together[2])
    alone = small().encode_texts(["c"])
    assert torch.equal(alone[0], together[1])


def test_a_sentence_model_gets_one_token_per_clause():
    prompt = Prompt(("walk on", "sit"), (4, 4))
    for name, asked in (("minilm", ["walk on", "sit"]), ("words", ["walk on, then sit"])):
        words = WordEncoder(20, name)
        tmr = small(words)
        tmr.encode_texts([tmr.whole_text(prompt)])
        assert words.asked == asked


def test_precomputed_token_embeddings(shared, tmp_path):
    folder = shared / "fixtures" / "tmr" / "text" / "annotations_tiny"
    encoder = TokenFolder(folder)
    values = np.load(folder / "token_embeddings" / "distilbert-base-uncased.npy")
    slices = np.load(folder / "token_embeddings" / "distilbert-base-uncased_slice.npy")
    texts = list(encoder._rows)
    features = encoder.encode(texts[:3])
    for row, text in enumerate(texts[:3]):
        begin, end = encoder._rows[text]
        assert [begin, end] in slices.tolist()
        assert np.array_equal(features.tokens[row][features.mask[row]].numpy(), values[begin:end])
    opened = open_text_model(str(folder))
    assert opened.width == values.shape[1]
    for call, word in (
        (lambda: encoder.encode(["something else"]), "no precomputed embedding"),
        (lambda: TokenFolder(tmp_path), "0 tables"),
        (lambda: open_text_model("", width=31), "no text model"),
    ):
        with pytest.raises(MotionkitError, match=word):
            call()


@pytest.mark.parametrize(
    ("values", "slices", "index"),
    [
        (np.zeros((2, 4), "U3"), np.array([[0, 2]]), 0),
        (np.zeros((2, 4), "f4"), np.array([["0", "2"]]), 0),
        (np.zeros((2, 4), "f4"), np.array([0, 2]), 0),
        (np.zeros((2, 4), "f4"), np.array([[0.0, 2.0]]), 0),
        (np.zeros((2, 4), "f4"), np.array([[0, 2]]), False),
    ],
)
def test_a_token_table_of_other_types_is_no_traceback(tmp_path, values, slices, index):
    np.save(tmp_path / "m.npy", values)
    np.save(tmp_path / "m_slice.npy", slices)
    (tmp_path / "m_index.json").write_text(json.dumps({"a": index}))
    with pytest.raises(MotionkitError, match=r"token embeddings|not numbers|index of texts"):
        TokenFolder(tmp_path)


def test_a_token_table_of_another_byte_order(tmp_path):
    values = np.arange(8.0).reshape(2, 4)
    np.save(tmp_path / "m.npy", values.astype(">f4"))
    np.save(tmp_path / "m_slice.npy", np.array([[0, 2]], ">i8"))
    (tmp_path / "m_index.json").write_text('{"a": 0}')
    assert np.array_equal(TokenFolder(tmp_path).encode(["a"]).tokens[0].numpy(), values)
