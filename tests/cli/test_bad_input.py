"""What goes wrong before or in a run is one clear error with the right exit code, and nothing is lost."""

from __future__ import annotations

import json
import os
import pickle
import resource
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import Result

from motionkit import starter
from motionkit.motion import HUMANML, KIT, Normalizer
from motionkit.nn import stock_keys
from motionkit.text_to_motion.mdm.open import new_policy, open_encoder
from motionkit.text_to_motion.mdm.settings import MDMSettings
from motionkit.text_to_motion.tmr.files import save_tmr
from motionkit.text_to_motion.tmr.model import ActorSizes, new_tmr

from ..made.plain import plain_dataset

Cli = Callable[..., Result]
CAPTIONS = starter.captions()


def tree(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, with its content."""
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def check(result: Result, code: int, *words: str) -> None:
    """One error, in words, with what to do about it; no traceback."""
    text = " ".join(result.stderr.split())
    assert result.exit_code == code, text
    assert "Traceback" not in text
    assert text.count("error: ") == 1, text
    assert " fix " in text, text
    for word in words:
        assert word in text, text


@pytest.fixture
def refused(cli: Cli) -> Callable[..., None]:
    """Run a command that must be refused: exit code 2, one error on both channels, and nothing made or changed."""

    def run(arguments: list[Any], *words: str) -> None:
        before = tree(Path())
        check(cli(*arguments), 2, *words)
        result = cli(*arguments, "--json")
        assert result.exit_code == 2
        document = json.loads(result.stdout)
        assert document["schema"] == 1
        assert document["error"].keys() - {"choices"} == {"code", "message", "why", "fix"}
        assert document["error"]["code"] == 2
        assert tree(Path()) == before
        assert not Path("run").exists()
        assert not Path("runs").exists()

    return run


def policy(folder: Path, *, skeleton: Any = HUMANML, width: int = 16) -> Path:
    """Write an untrained policy."""
    size = skeleton.width
    source = plain_dataset(
        skeleton=skeleton, fps=20.0, max_length=196, normalizer=Normalizer(torch.zeros(size), torch.ones(size))
    )
    shape = MDMSettings(
        layers=1, latent_dim=width, num_heads=2, ff_size=32, patch_size=4, clause_frames=True, mask_frames=True,
        diffusion_steps=10,
    )  # fmt: skip
    return new_policy(shape, dataset=source, encoder=open_encoder("stored")).save(folder)


def released_tmr(folder: Path) -> Path:
    """Write the three parts of a TMR the way its authors do."""
    tmr = new_tmr(ActorSizes(263, 16, 32, 1, 2), torch.zeros(263), torch.ones(263), open_encoder("stored"))
    folder.mkdir()
    for name in ("text_encoder", "motion_encoder"):
        torch.save(stock_keys(getattr(tmr, name).state_dict()), folder / f"{name}.pt")
    torch.save(torch.zeros(263), folder / "mean.pt")
    torch.save(torch.arange(1, 264) / 100, folder / "std.pt")
    return folder


@pytest.fixture
def data(cli: Cli) -> Path:
    """A HumanML3D-layout folder of six clips that can be trained on."""
    root = Path("data")
    rng = np.random.default_rng(0)
    for part in ("new_joint_vecs", "texts"):
        (root / part).mkdir(parents=True)
    names = [f"{number:06d}" for number in range(6)]
    for name, caption in zip(names, CAPTIONS, strict=False):
        np.save(root / "new_joint_vecs" / f"{name}.npy", rng.standard_normal((48, 263)).astype("f4"))
        (root / "texts" / f"{name}.txt").write_text(f"{caption}#a/DET#0.0#0.0\n")
    for split in ("train", "val", "test"):
        (root / f"{split}.txt").write_text("\n".join(names) + "\n")
    np.save(root / "Mean.npy", np.zeros(263, "f4"))
    np.save(root / "Std.npy", np.ones(263, "f4"))
    return root


def pretrain(data: Path, model: str = "mdm") -> list[Any]:
    """Return the arguments that train on a folder."""
    return [
        "pretrain", model, "--dataset", "humanml", "--dataset.root", data, "--text.encoder", "stored", "--out", "run",
        "--num-steps", 1, "--model.latent-dim", 16, "--model.layers", 1, "--device", "cpu",
    ]  # fmt: skip


class Bomb:
    """Leaves a file behind when it is unpickled by somebody careless."""

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return (os.mkdir, ("exploded",))


# Weights.


def test_missing_checkpoint(tiny: Any, refused: Callable[..., None]) -> None:
    refused(tiny.grpo("run", "--policy.checkpoint", "nowhere.pt"), "nowhere.pt does not exist", "--policy.checkpoint")
    refused(tiny.grpo("run", "--reward.weights", "nowhere"), "nowhere does not exist", "--reward.weights")
    refused(tiny.grpo("run", "--reference", "nowhere"), "nowhere does not exist")
    refused(tiny.grpo("run", "--judge.weights", "nowhere"), "nowhere does not exist")


def test_a_library_of_matrix_products(tiny: Any, refused: Callable[..., None]) -> None:
    refused(tiny.grpo("run", "--cpu-matmul", "mkl"), "--cpu-matmul 'mkl'", "'auto', 'onednn' or 'default'")
    words = tiny.grpo("run", "--cpu-matmul", "onednn")
    words[words.index("--device") + 1] = "cuda"
    refused(words, "--cpu-matmul 'onednn'", "has no effect: the run is on cuda")


def test_truncated_checkpoint(tiny: Any, cli: Cli, refused: Callable[..., None]) -> None:
    assert cli("export", tiny.mdm, "mdm").exit_code == 0
    file = next(Path("mdm").glob("*.pt"))
    file.write_bytes(file.read_bytes()[:-2000])
    refused(tiny.grpo("run", "--policy.checkpoint", file), file.name, "cut short", "copy or download it again")
    for name, folder, option in (("policy", tiny.mdm, "--policy.checkpoint"), ("tmr", tiny.tmr, "--reward.weights")):
        shutil.copytree(folder / name, name)
        weights = Path(name, "model.safetensors")
        weights.write_bytes(weights.read_bytes()[:-2000])
        refused(tiny.grpo("run", option, name), "model.safetensors is a damaged safetensors file")
        weights.unlink()
        refused(tiny.grpo("run", option, name), name)


def test_swapped_encoders(tiny: Any, cli: Cli, refused: Callable[..., None]) -> None:
    released_tmr(Path("own"))
    words = tiny.grpo("run")
    place = words.index("--reward.weights")
    del words[place : place + 2]
    files = ["--reward.text-encoder", "own/motion_encoder.pt", "--reward.motion-encoder", "own/text_encoder.pt"]
    refused([*words, *files], "text and motion encoder are swapped", "exchange --reward.text-encoder")
    files = ["--reward.text-encoder", "own/text_encoder.pt", "--reward.motion-encoder", "own/motion_encoder.pt"]
    assert cli(*words, *files, "--dry-run").exit_code == 0


def test_guo_evaluator_as_tmr(tiny: Any, refused: Callable[..., None]) -> None:
    gru = {"gru.weight_ih_l0": torch.zeros(3, 2), "hidden": torch.zeros(2, 1, 2), "output_net.0.weight": torch.zeros(1)}
    movement = {"main.0.weight": torch.zeros(4, 259, 4), "out_net.weight": torch.zeros(2, 2)}
    parts = {"movement_encoder": movement, "text_encoder": gru, "motion_encoder": gru}
    torch.save(parts | {"opt_motion_encoder": {}, "epoch": 1, "iter": 2}, "finest.tar")
    refused(tiny.grpo("run", "--reward.weights", "finest.tar"), "not a TMR encoder", "Guo et al.", "mdm-matching")


def test_tmr_as_guo_evaluator(tiny: Any, refused: Callable[..., None]) -> None:
    words = tiny.grpo("run")
    words[words.index("tmr-dense")] = "mdm-dense"
    refused(words, "is a TMR, not the text-to-motion evaluator", "--reward tmr-dense --reward.weights")


def test_other_files_are_called_by_their_name(tiny: Any, cli: Cli, refused: Callable[..., None]) -> None:
    assert cli("export", tiny.mdm, "mdm").exit_code == 0
    file = next(Path("mdm").glob("*.pt"))
    refused(tiny.grpo("run", "--reward.weights", file), "an MDM diffusion model")
    released_tmr(Path("own"))
    refused(tiny.grpo("run", "--policy.checkpoint", "own/motion_encoder.pt"), "a TMR motion encoder")


def test_wrong_feature_width(tiny: Any, data: Path, refused: Callable[..., None]) -> None:
    kit = policy(Path("kit"), skeleton=KIT)
    refused(tiny.grpo("run", "--policy.checkpoint", kit), "body", "choose a dataset and a checkpoint of the same body")
    encoder = open_encoder("stored")
    save_tmr(Path("tmr"), new_tmr(ActorSizes(251, 16, 32, 1, 2), torch.zeros(251), torch.ones(251), encoder))
    refused(tiny.grpo("run", "--reward.weights", "tmr"), "reads 251 features per frame, these motions have 263")
    np.save(data / "new_joint_vecs" / "000003.npy", np.zeros((48, 100), "f4"))
    refused(pretrain(data), "000003", "100", "263")
    np.save(data / "Mean.npy", np.zeros(251, "f4"))
    np.save(data / "Std.npy", np.ones(251, "f4"))
    refused(pretrain(data), "Mean.npy has 251 values; humanml needs 263", "--dataset kit")


def test_reference_of_another_size(tiny: Any, refused: Callable[..., None]) -> None:
    other = policy(Path("other"), width=32)
    refused(tiny.grpo("run", "--reference", other), "the reference does not match the policy", "same architecture")


def test_a_pickle_that_runs_code_is_not_run(tiny: Any, data: Path, refused: Callable[..., None]) -> None:
    torch.save({"state_dict": {"w": torch.zeros(2)}, "x": Bomb()}, "torch.pt")
    Path("plain.pt").write_bytes(pickle.dumps(Bomb()))
    torch.save(Bomb(), "old.pt", _use_new_zipfile_serialization=False)
    for name in ("torch.pt", "plain.pt", "old.pt"):
        for option in ("--policy.checkpoint", "--reward.weights"):
            refused(tiny.grpo("run", option, name), name, "mkdir")
    (data / "Mean.npy").unlink()
    np.save(data / "Mean.npy", np.array([Bomb()], dtype=object), allow_pickle=True)
    refused(pretrain(data), "Mean.npy")
    assert not Path("exploded").exists()


# Data.


@pytest.mark.parametrize("model", ["mdm", "tmr"])
def test_empty_dataset(model: str, data: Path, refused: Callable[..., None]) -> None:
    refused(pretrain(Path("nowhere"), model), "there is no folder nowhere", "motionkit convert")
    (data / "train.txt").write_text("\n")
    refused(pretrain(data, model), "train.txt lists no clip")
    (data / "train.txt").unlink()
    refused(pretrain(data, model), "train.txt is missing")


def test_a_caption_without_a_motion(data: Path, cli: Cli, refused: Callable[..., None]) -> None:
    (data / "new_joint_vecs" / "000002.npy").unlink()
    refused(pretrain(data), "1 clip of ", "000002", "--dataset.broken skip")
    result = cli(*pretrain(data), "--dataset.broken", "skip", "--dry-run", "--json")
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["plan"]["train_clips"] == 5
    assert "skipped 1 broken clip: 000002" in result.stderr


def test_a_motion_without_a_caption(data: Path, cli: Cli, refused: Callable[..., None]) -> None:
    (data / "texts" / "000002.txt").unlink()
    result = cli(*pretrain(data), "--dry-run")
    assert result.exit_code == 0
    assert "1 clip without a caption, not used" in result.stderr
    for file in (data / "texts").iterdir():
        file.write_text("")
    refused(pretrain(data), "no usable clip", "6 without a caption", "--captions CSV")


# Words.


def test_unknown_flags_and_keys_are_answered_with_the_nearest(tiny: Any, refused: Callable[..., None]) -> None:
    refused(tiny.grpo("run", "--group-sise", 4), "no such option: --group-sise", "--group-size")
    refused(tiny.grpo("run", "--set", "rollout.group_sise=4"), "rollout.group_sise", "rollout.group_size")
    refused(tiny.grpo("run", "--reward.alhpa", 4), "--reward.alhpa", "--reward.alpha")
    Path("a.toml").write_text("[rollout]\ngroup_sise = 4\n")
    refused(tiny.grpo("run", "--config", "a.toml"), "rollout.group_sise", "a.toml", "rollout.group_size")
    refused(tiny.grpo("run", "--reward", "tmr-dens"), "tmr-dens", "tmr-dense")
    refused(tiny.grpo("run", "--group-size", "many"), "group_size", "many")


@pytest.mark.parametrize("parts", [21, 5000])
def test_a_key_of_many_parts_is_refused(
    parts: int, refused: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    key = ".".join(["optim", *["a"] * (parts - 1)])
    refused(["grpo", "--set", f"{key}=1"], f"has {parts} parts", "keys have at most 20")
    refused(["tune-bayes", "--trainer", "grpo", "--base-set", f"{key}=1"], f"has {parts} parts")
    monkeypatch.setenv("MOTIONKIT_" + "__".join(key.upper().split(".")), "1")
    refused(["grpo"], f"has {parts} parts")


def test_a_judge_that_is_none_is_named_by_its_flag(refused: Callable[..., None]) -> None:
    refused(["grpo", "--judge", "none"], "--judge none: there is no reward 'none'")
    Path("a.toml").write_text('judge = "gone"\n')
    refused(["grpo", "--config", "a.toml"], "a.toml: judge gone: there is no reward 'gone'")


def test_an_option_that_cannot_act_is_refused(tiny: Any, refused: Callable[..., None]) -> None:
    named = ("--algorithm", "grpo")
    refused(tiny.grpo("run", *named, "--noise-scale", 0.3), "--noise-scale", "--algorithm flow-grpo")
    share = ("--set", "sampler.window_share=0.2")
    refused(tiny.grpo("run", *named, *share), "window_share", "sampler.window snr only")
    refused(tiny.grpo("run", "--device", "cuda:99"), "cuda:99 is not on this machine", "--device auto")


@pytest.mark.parametrize(
    ("words", "key", "said"),
    [
        (["--learning-rate", "inf"], "optim.learning_rate", "finite number"),
        (["--learning-rate", "nan"], "optim.learning_rate", "finite number"),
        (["--set", "objective.kl_coef=1e999"], "objective.kl_coef", "finite number"),
        (["--set", "reward.physics.heights=nan", "--reward", "physics"], "reward.physics.heights", "finite number"),
        (["--set", "optim.betas=0.9,1"], "optim.betas", "less than 1"),
        (["--group-size", 100_000_000], "rollout.group_size", "less than or equal to 4096"),
        (["--batch-size", 100_000_000], "rollout.prompts", "less than or equal to 16384"),
        (["--batch-size", 4096, "--group-size", 4096], "rollout", "131072 per update"),
        (["--lora.r", 100_000], "lora.r", "less than or equal to 4096"),
        (["--k-segments", 10**6], "prompts.k_segments", "less than or equal to 1000"),
        (["--train-timesteps", 10**9], "sampler.train_timesteps", "less than or equal to 10000"),
        (["--dataset.clips", 10**9], "dataset.clips", "less than or equal to 100000"),
        (["--num-steps", 10**30], "run.num_steps", "at most 64 bits"),
        (["--threads", 10**6], "threads", "less than or equal to 1024"),
        (["--device", "cuda:99999999999999999999"], "device", "must be auto, cpu"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(map(str, value)),
)
def test_numbers_that_no_run_can_have(words: list[Any], key: str, said: str, refused: Callable[..., None]) -> None:
    refused(["grpo", *words], key, said)


@pytest.mark.parametrize("model", ["mdm", "tmr"])
def test_networks_that_no_machine_holds(model: str, refused: Callable[..., None]) -> None:
    refused(["pretrain", model, "--model.latent-dim", 10**6], "model.latent_dim", "less than or equal to 16384")
    refused(["pretrain", model, "--model.layers", 256, "--model.latent-dim", 16384], "model", "weights, too many")


# Disks and folders.


@contextmanager
def small_disk(size: int) -> Iterator[None]:
    """Let no file grow beyond `size` bytes, as a full disk does; the system itself refuses."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_while_saving(tiny: Any, cli: Cli) -> None:
    assert cli(*tiny.grpo("run", steps=1)).exit_code == 0
    saved = tree(Path("run/checkpoints"))
    with small_disk(60_000):
        result = cli("grpo", "--resume", "run", "--num-steps", 2, "--set", "heldout.motions=0")
    check(result, 1, "cannot save the checkpoint of step 2", "What was saved before is intact", "--resume")
    assert tree(Path("run/checkpoints")) == saved
    assert not list(Path("run").rglob(".tmp-*"))
    assert json.loads(Path("run/run.json").read_text())["status"] == "failed"

    assert cli("grpo", "--resume", "run", "--num-steps", 2).exit_code == 0
    assert cli(*tiny.grpo("whole", steps=2)).exit_code == 0
    last = "checkpoints/step-00000002/model.safetensors"
    assert Path("run", last).read_bytes() == Path("whole", last).read_bytes()


def test_an_existing_run_folder(tiny: Any, cli: Cli) -> None:
    assert cli(*tiny.grpo("run", steps=1)).exit_code == 0
    Path("run/notes.txt").write_text("mine")
    before = tree(Path("run"))
    check(cli(*tiny.grpo("run", steps=1)), 2, "run already holds a run (grpo, done)", "--resume run", "--overwrite")
    assert tree(Path("run")) == before
    assert cli(*tiny.grpo("run", "--overwrite", "--seed", 1, steps=1)).exit_code == 0
    after = tree(Path("run"))
    assert after["run/notes.txt"] == b"mine"
    assert after["run/config.json"] != before["run/config.json"]
