"""Readers of policies, released MDM checkpoints, TMR models, text-to-motion evaluators and motion encoders."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import torch

from motionkit.motion import HUMANML, Normalizer
from motionkit.nn import stock_keys
from motionkit.text import CachedEncoder, TextFeatures
from motionkit.text_to_motion.evaluator.files import load_evaluator, save_evaluator
from motionkit.text_to_motion.evaluator.model import EvaluatorSizes, WordTable, new_evaluator
from motionkit.text_to_motion.mdm.files import export_stock, read_stats
from motionkit.text_to_motion.mdm.open import export_checkpoint, new_policy, open_policy
from motionkit.text_to_motion.mdm.policy import MDMPolicy
from motionkit.text_to_motion.mdm.settings import MDMOptions, MDMSettings
from motionkit.text_to_motion.tmr.files import load_tmr, save_tmr
from motionkit.text_to_motion.tmr.files import read_stats as read_tmr_stats
from motionkit.text_to_motion.tmr.model import ActorSizes, new_tmr
from motionkit_predictor.encoder.network import EncoderSizes, MotionEncoder, Scales, open_encoder, save_encoder

from ..made.plain import plain_dataset
from .reader import Reader

_TINY = {"layers": 1, "latent_dim": 4, "num_heads": 2, "ff_size": 8, "pos_embed_max_len": 300}


class _Words:
    """Stands for the text model, which is not a part of these files."""

    name = "stored"
    fingerprint = "words"

    def __init__(self, width: int) -> None:
        self.width = width

    def encode(self, texts: list[str]) -> TextFeatures:
        """Return zeros."""
        return TextFeatures(torch.zeros(len(texts), 1, self.width), torch.ones(len(texts), 1, dtype=torch.bool))


def tiny_policy(**shape: object) -> MDMPolicy:
    """Return an untrained policy of a few thousand weights, for the text features of the starter."""
    stats = Normalizer(torch.zeros(263), torch.ones(263))
    source = plain_dataset(skeleton=HUMANML, fps=20.0, normalizer=stats, max_length=60)
    settings = MDMSettings.model_validate({**_TINY, **shape})
    return new_policy(settings, dataset=source, encoder=CachedEncoder(_Words(384)))


def _make_policies(scratch: Path) -> None:
    tiny_policy().save(scratch / "plain")
    adapted = tiny_policy(clause_frames=True, patch_size=4)
    adapted.adapt(r=2, alpha=4.0)
    adapted.save(scratch / "adapted")
    run = scratch / "run"
    tiny_policy().save(run / "policy", tensors=False)
    tiny_policy().save(run / "checkpoints" / "step-00000003")
    (run / "checkpoints" / "step-00000003" / "policy.json").unlink()
    (run / "checkpoints" / "last").write_text("step-00000003\n")


def _read_policy(folder: Path) -> None:
    open_policy(MDMOptions(checkpoint=str(folder)))


def _export_policy(folder: Path) -> None:
    export_checkpoint(str(next(folder.glob("*.pt"), folder)), folder / "out")


def _make_released(scratch: Path) -> None:
    shapes = {"encoder": {}, "decoder": {"arch": "trans_dec", "emb_trans_dec": True}}
    for name, shape in shapes.items():
        policy = tiny_policy(**shape)
        export_stock(policy.settings, policy.network, scratch / name, skeleton=HUMANML)
    wrapped = scratch / "wrapped"
    policy = tiny_policy()
    path = export_stock(policy.settings, policy.network, wrapped, skeleton=HUMANML)
    tensors = torch.load(path, weights_only=True)
    torch.save({"model": tensors, "model_avg": tensors, "epoch": 3}, path)
    args = json.loads((wrapped / "args.json").read_text())
    (wrapped / "args.json").write_text(json.dumps({**args, "use_ema": True}))


def _make_tmrs(scratch: Path) -> None:
    sizes = ActorSizes(263, 4, 8, 1, 2)
    model = new_tmr(sizes, torch.zeros(263), torch.ones(263), _Words(384), decoder=True)
    save_tmr(scratch / "ours", model)
    nets = {"text_encoder": model.text_encoder, "motion_encoder": model.motion_encoder}
    tensors = {name: dict(stock_keys(net.state_dict())) for name, net in nets.items()}
    config = {"model": {"motion_encoder": {"num_heads": 2}}, "data": {"text_to_token_emb": {"modelname": "x"}}}
    for name in ("folder", "single"):
        (scratch / name / "stats").mkdir(parents=True)
        (scratch / name / "config.json").write_text(json.dumps(config))
        for part, value in {"mean": np.zeros(263, "f4"), "std": np.linspace(1, 2, 263, dtype="f4")}.items():
            np.save(scratch / name / "stats" / f"{part}.npy", value)
    (scratch / "folder" / "last_weights").mkdir()
    for name, part in tensors.items():
        torch.save(part, scratch / "folder" / "last_weights" / f"{name}.pt")
    flat = {f"{name}.{key}": value for name, part in tensors.items() for key, value in part.items()}
    torch.save({"state_dict": flat, "pytorch-lightning_version": "2"}, scratch / "single" / "last.ckpt")


def _read_tmr(folder: Path) -> None:
    load_tmr(folder, text_model=_Words(384))


def _make_evaluators(scratch: Path) -> None:
    words = {word: row for row, word in enumerate(("sos", "eos", "unk", "walk"))}
    table = np.ones((len(words), 5), dtype="f4")
    sizes = EvaluatorSizes(263, 3, 3, 2, 2, 4, word=5)
    std = torch.full((263,), 0.01)
    model = new_evaluator(sizes, torch.zeros(263), std, WordTable(torch.from_numpy(table), words))
    save_evaluator(scratch / "ours", model)
    released, glove = scratch / "released", scratch / "released" / "glove"
    for folder in (released / "model", released / "Comp_v6_KLD01" / "meta", glove):
        folder.mkdir(parents=True)
    nets = ("movement_encoder", "motion_encoder", "text_encoder")
    state = {name: getattr(model, name).state_dict() for name in nets}
    torch.save({**state, "opt_text_encoder": {}, "epoch": 1}, released / "model" / "finest.tar")
    for part, value in {"mean": np.zeros(263), "std": np.full(263, 0.01)}.items():
        np.save(released / "Comp_v6_KLD01" / "meta" / f"{part}.npy", value)
    np.save(glove / "our_vab_data.npy", table)
    (glove / "our_vab_words.pkl").write_bytes(pickle.dumps(list(words)))
    (glove / "our_vab_idx.pkl").write_bytes(pickle.dumps(words))


def _read_evaluator(folder: Path) -> None:
    load_evaluator(folder)


def _make_encoders(scratch: Path) -> None:
    for layers, names in ((1, ("hips", "head")), (2, ("hips",))):
        sizes = EncoderSizes(width=4, layers=layers, history=2)
        encoder = MotionEncoder(sizes, names, 30.0, Scales.neutral(len(names)))
        save_encoder(scratch / f"layers{layers}", encoder)


def _read_encoder(folder: Path) -> None:
    encoder = open_encoder(folder)
    encoder.period(encoder(torch.zeros(1, encoder.inputs)))


def _make_stats(scratch: Path) -> None:
    for name in ("f4", ">f8"):
        (scratch / name).mkdir()
        for part in ("Mean", "Std"):
            np.save(scratch / name / f"{part}.npy", np.linspace(1, 2, 263, dtype=name))


def _read_stats(folder: Path) -> None:
    """Read what --policy.stats and --reward.stats name."""
    read_stats(folder)
    read_tmr_stats(folder, 263)


READERS = (
    Reader("policy", _make_policies, _read_policy),
    Reader("released-mdm", _make_released, _export_policy),
    Reader("tmr", _make_tmrs, _read_tmr),
    Reader("evaluator", _make_evaluators, _read_evaluator),
    Reader("mpl-encoder", _make_encoders, _read_encoder),
    Reader("statistics", _make_stats, _read_stats),
)
