"""The reward-model guide's settings file and its dotted names."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from motionkit.config import SettingsError, resolve
from motionkit_success.train_settings import RewardTrainSettings


def config_of(shared: Path) -> str:
    """Return the YAML block of the guide that train_reward_model.yaml is."""
    text = (shared / "guides/002-reward-model-workflow.rst").read_text(encoding="utf-8")
    block = text[text.index("   defaults:\n") :]
    lines = []
    for line in block.splitlines():
        if line.strip() and not line.startswith("   "):
            break
        lines.append(line[3:])
    return "\n".join(lines)


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "train_reward_model.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_the_guides_file_means_what_it_says(shared, tmp_path):
    path = write(tmp_path, config_of(shared))
    found = resolve(RewardTrainSettings, files=(path,))
    s = found.settings
    assert (s.train.batch_size, s.run.epochs, s.log.every, s.checkpoint.every) == (32, 100, 100, 1000)
    assert str(s.run.out) == "../results/reward-model-training"  # so that checkpoints lie where the guide has them
    assert (s.data.cameras, s.data.image_size) == (("base_camera",), (3, 64, 64))
    assert (s.model.chosen, s.model.hidden, s.model.blocks) == ("resnet10", 256, 8)
    assert (s.model.freeze, s.model.pretrained, s.model.frozen) == ("auto", None, False)
    assert (s.optim.learning_rate, s.optim.grad_clip) == (1e-4, 1.0)
    assert [str(p) for p in (s.data.positive_dir, s.data.negative_dir)] == [
        "reward_data/positive", "reward_data/negative",
    ]  # fmt: skip
    assert s.device == "auto"
    assert found.origins["run.epochs"] == f"{path}: reward.num_epochs"
    notes = " ".join(found.notes)
    for words in (
        "reward.num_epochs → run.epochs", "it is trained: the guide's code would freeze random weights", "gpu_id 0 is",
        "defaults", "Hydra's own", "reward.data.num_workers",
    ):  # fmt: skip
        assert words in notes


def test_every_key_of_the_guides_file_is_named_in_a_note(shared, tmp_path):
    text = config_of(shared)
    notes = " ".join(resolve(RewardTrainSettings, files=(write(tmp_path, text),)).notes)

    def leaves(table, prefix=""):
        for key, value in table.items():
            yield from leaves(value, f"{prefix}{key}.") if isinstance(value, dict) else (f"{prefix}{key}",)

    for key in leaves(yaml.safe_load(text)):
        assert key in notes or key.split(".")[0] in ("cluster", "defaults"), key


def test_a_file_that_is_pretrained_is_frozen_and_flags_win(shared, tmp_path):
    text = config_of(shared).replace("pretrained_encoder_path: null", "pretrained_encoder_path: ./resnet10.pt")
    s = resolve(RewardTrainSettings, files=(write(tmp_path, text),), flags={("run", "epochs"): "7"}).settings
    assert s.model.frozen
    assert str(s.model.pretrained) == "resnet10.pt"
    assert s.run.epochs == 7
    s = resolve(
        RewardTrainSettings, files=(write(tmp_path, text.replace("use_pretrain: true", "use_pretrain: false")),)
    )
    assert s.settings.model.pretrained is None


def test_dotted_names_of_the_guide_work_with_set(shared, tmp_path):
    found = resolve(
        RewardTrainSettings,
        files=(write(tmp_path, config_of(shared)),),
            sets=("reward.num_epochs=50", "reward.gpu_id=1", "reward.model.freeze_encoder=false", "augment.shift=1",
                  "reward.data.num_workers=8"),
    )  # fmt: skip
    s = found.settings
    assert (s.run.epochs, s.device, s.model.freeze, s.augment.shift) == (50, "cuda:1", "never", 1)
    assert found.origins["run.epochs"] == "command line: reward.num_epochs"
    assert any("reward.num_epochs → run.epochs" in note and "command line" not in note for note in found.notes)
    with pytest.raises(SettingsError, match=r"reward\.num_epoch"):
        resolve(RewardTrainSettings, sets=("reward.num_epoch=50",))


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("out: ${oc.env:HOME}/x", "oc.env"),
        ("model: {_target_: os.system}", "_target_"),
        ("save_dir: ${reward.save_dir}", "itself"),
        ("save_dir: ${runner.nothing}", "runner.nothing"),
        ("save_dir: ${.seed}", "cannot be read"),
        ("num_epochs: ???", "num_epochs"),
        ("num_epoch: 5", "did you mean"),
        ("model: {hidden: 5}", "hidden"),
    ],
)
def test_what_cannot_be_kept_is_refused_by_name(tmp_path, line, word):
    path = write(tmp_path, f"reward:\n  {line}\n")
    with pytest.raises(SettingsError, match=word):
        resolve(RewardTrainSettings, files=(path,))


def test_interpolation_keeps_types_and_nests(tmp_path):
    text = "runner: {output_dir: out, experiment_name: '${reward.seed}'}\nbase: {n: 5}\n"
    path = write(
        tmp_path, text + "reward: {seed: 3, save_dir: '${runner.output_dir}/a-${runner.experiment_name}/checkpoints'}"
    )
    with pytest.raises(SettingsError, match=r"base\.n"):
        resolve(RewardTrainSettings, files=(path,))
    path.write_text(path.read_text().replace("base: {n: 5}\n", ""))
    s = resolve(RewardTrainSettings, files=(path,)).settings
    assert (str(s.run.out), s.seed) == ("out/a-3", 3)


def test_what_only_hydra_reads_may_hold_its_resolvers(tmp_path):
    """The file of the guide's authors has ``oc.env`` in its search path."""
    path = write(
        tmp_path, 'hydra: {searchpath: ["file://${oc.env:X}/config/"]}\nreward: {num_epochs: 3, save_dir: ""}\n'
    )
    found = resolve(RewardTrainSettings, files=(path,))
    assert (found.settings.run.epochs, found.settings.run.out) == (3, None)
    assert "reward.save_dir: it is empty" in " ".join(found.notes)
