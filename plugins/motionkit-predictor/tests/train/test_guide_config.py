"""The guide's exp_phase_mpl.json, unchanged."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from motionkit.config import Resolved, SettingsError, resolve
from motionkit_predictor.training.settings import TrainMplSettings

GUIDE = "003-motion-predictor.md"

PLAIN = """{
  // data and outputs
  "data": "./clips",
  "out": "./models/one",
  "epochs": 4, "batch": 8, "lr": 3e-4, "seq_len": 60,
  "tf_mode": "epoch_linear", "tf_end_epoch": 3, "tf_max": 1.0,
  "w_fk_pos": 0.07, "w_cond_yaw": 0, "lookahead_weight": 0.2,
  "hidden_dim": 256, "num_layers": 3, "dropout": 0.2, "weight_decay": 1e-5, "accumulation_steps": 4,
  "augmentation": {"noise_std": 0.01, "speed_scale_range": [0.8, 1.2]},
  "dataset_profile": {"n_clips": 5},
  "freerun_stage_schedule": [
    {"range": [1, 2], "label": "a", "trainer": {"freerun_weight": 0.0, "freerun_horizon": 8, "lookahead_steps": 3},
     "loss_groups": {"core": {"w_fk_pos": 0.1, "w_cond_yaw": 0.1}, "aux": {"w_limb_geo": 0.0}}},
    {"range": [3, 4], "label": "b", "trainer": {"freerun_weight": 0.3, "freerun_horizon": 40}, "tf": {"max": 0.8},
     "loss": {"w_rot_local": 0.3}, "targets": {"yaw": {"lo": 1.0, "hi": 2.0}}}
  ], // the end
}
"""


def read(path: Path, text: str, *flags: tuple[tuple[str, ...], str]) -> Resolved[TrainMplSettings]:
    path.write_text(text)
    return resolve(TrainMplSettings, flags=dict(flags), files=(path,))


def problems(path: Path, text: str) -> dict[str, str]:
    with pytest.raises(SettingsError) as caught:
        read(path, text)
    return {one.key: f"{one.message}; {one.fix}" for one in caught.value.problems}


def test_each_key_has_its_name_here(tmp_path: Path) -> None:
    file = tmp_path / "exp.json"
    found = read(file, PLAIN)
    settings = found.settings
    assert settings.data == ("./clips",)
    assert settings.fps == 0
    assert (settings.run.epochs, settings.run.out) == (4, Path("models/one"))
    assert (settings.train.batch_size, settings.train.seq_len, settings.train.accumulation_steps) == (8, 60, 4)
    assert (settings.model.width, settings.model.layers, settings.model.dropout) == (256, 3, 0.2)
    assert (settings.optim.learning_rate, settings.optim.weight_decay) == (3e-4, 1e-5)
    assert (settings.augmentation.noise_std, settings.augmentation.speed_scale_range) == (0.01, (0.8, 1.2))
    assert settings.loss.fk_pos == 0.07
    assert settings.loss.rot_delta == 1.0, "the guide's script adds it"
    first, last = settings.stages
    assert first.trainer == {"freerun_weight": 0.0, "freerun_horizon": 8}
    assert first.loss_groups == {"core": {"w_fk_pos": 0.1}, "aux": {"w_limb_geo": 0.0}}
    assert last.trainer == {"freerun_weight": 0.3, "freerun_horizon": 40, "tf_max": 0.8}
    assert last.loss_groups == {"core": {"w_rot_local": 0.3}}
    assert settings.train.known == 20, "40 frames of free run fit into 60"
    assert found.origins["train.batch_size"] == f"{file}: batch"
    assert found.origins["loss.rot_delta"] == f"{file}: the guide's default"
    assert found.origins["augmentation.noise_std"] == f"{file}: augmentation.noise_std"
    assert found.origins["loss.root"] == "default"


def test_the_reading_is_told_once_in_a_few_paragraphs(tmp_path: Path) -> None:
    read_as, filled, left = read(tmp_path / "exp.json", PLAIN).notes
    assert "batch → train.batch_size" in read_as
    assert "freerun_stage_schedule → stages" in read_as
    assert "unchanged: data." in read_as
    assert "working folder" in read_as
    assert "loss.rot_delta 1" in filled
    assert "train.known 20" in filled
    for key in ("w_cond_yaw", "lookahead_weight", "lookahead_steps", "dataset_profile", "targets"):
        assert key in left


def test_flags_and_later_files_win(tmp_path: Path) -> None:
    (tmp_path / "more.toml").write_text("[loss]\nfk_pos = 0.5\n")
    (tmp_path / "exp.json").write_text(PLAIN)
    files = (tmp_path / "exp.json", tmp_path / "more.toml")
    settings = resolve(TrainMplSettings, {("train", "batch_size"): "16"}, files=files).settings
    assert (settings.train.batch_size, settings.loss.fk_pos, settings.train.seq_len) == (16, 0.5, 60)


def test_a_file_of_motionkits_own_is_left_alone(tmp_path: Path) -> None:
    found = read(tmp_path / "own.json", '{"data": ["x"], "augmentation": {"noise_std": 0.1}, "run": {"epochs": 2}}')
    assert found.notes == ()
    assert found.settings.fps == 30
    assert found.settings.loss.rot_delta == 0
    again = tmp_path / "config.json"
    again.write_text(json.dumps(found.snapshot()))
    assert resolve(TrainMplSettings, files=(again,)).settings == found.settings


def test_what_cannot_be_kept_is_refused_at_once_and_by_name(tmp_path: Path) -> None:
    text = """{"epochs": 2, "w_foot_slide": 0.1, "w_fkpos": 1, "hidden_dim": 64, "width": 32, "resume": "x",
      "hedgehog": 1,
      "freerun_stage_schedule": [{"range": [1, 2], "trainer": {"freerun_wait": 1, "w_foot_fixed": 1},
      "loss_groups": {"core": {"w_rot_locl": 1}, "aux": 3}, "notes": ""}]}"""
    found = problems(tmp_path / "bad.json", text)
    assert "forbids explicit constraints of the feet" in found["w_foot_slide"]
    assert "did you mean w_fk_pos?" in found["w_fkpos"]
    assert "hidden_dim sets model.width as well" in found["width"]
    assert "--resume RUN" in found["resume"]
    assert "unknown setting" in found["hedgehog"]
    stage = "freerun_stage_schedule.1"
    assert "did you mean freerun_weight?" in found[f"{stage}.trainer.freerun_wait"]
    assert "feet" in found[f"{stage}.trainer.w_foot_fixed"]
    assert "did you mean w_rot_local?" in found[f"{stage}.loss_groups.core.w_rot_locl"]
    assert "table" in found[f"{stage}.loss_groups.aux"]
    assert "unknown setting" in found[f"{stage}.notes"]


@pytest.mark.parametrize(
    "stages",
    ["3", "[3]", '["a"]', '[{"range": 3}]', '[{"range": [1]}]', '[{"range": [1, 2], "trainer": []}]', "{}",
     '[{"range": [1, "x"], "trainer": {"freerun_horizon": "many"}}]'],
)  # fmt: skip
def test_stages_of_any_shape_end_in_a_plain_error(tmp_path: Path, stages: str) -> None:
    assert problems(tmp_path / "bad.json", f'{{"seq_len": 60, "freerun_stage_schedule": {stages}}}')


def test_stages_of_another_length_say_what_to_change(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="--epochs") as caught:
        read(tmp_path / "exp.json", PLAIN, (("run", "epochs"), "9"))
    assert caught.value.problems[0].key == "stages"


def test_without_epochs_the_stages_say_how_many(tmp_path: Path) -> None:
    assert read(tmp_path / "exp.json", PLAIN.replace('"epochs": 4,', "")).settings.run.epochs == 4


@pytest.mark.parametrize(
    ("method", "kept"),
    [("none", ()), ("gradnorm", ("alpha", "terms")), ("uncertainty", ("terms",)), ("dwa", ("temperature", "terms"))],
)
def test_options_of_other_adaptive_methods_are_left_out(tmp_path: Path, method: str, kept: tuple[str, ...]) -> None:
    text = f"""{{"adaptive_loss_method": "{method}", "adaptive_loss_terms": "w_fk_pos, rot_local",
      "adaptive_loss_alpha": 2.0, "adaptive_loss_temperature": 3.0}}"""
    found = read(tmp_path / "a.json", text).settings.adaptive
    changed = {"alpha": found.alpha == 2.0, "temperature": found.temperature == 3.0, "terms": bool(found.terms)}
    assert found.method == method
    assert tuple(name for name in sorted(changed) if changed[name]) == kept
    if kept:
        assert found.terms == ("fk_pos", "rot_local")


def test_paths_count_from_where_the_data_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in the guide: the config in config/, its paths from the project, typed in train/."""
    project = tmp_path / "project"
    for name in ("config", "train", "raw_data"):
        (project / name).mkdir(parents=True)
    text = '{"data": "./raw_data", "out": "./models/a", "run_name": "b", "encoder": "enc", "epochs": 1}'
    (project / "config/exp.json").write_text(text)
    monkeypatch.chdir(project / "train")
    found = resolve(TrainMplSettings, files=(Path("../config/exp.json"),))
    settings = found.settings
    assert (settings.data, settings.run.out, settings.encoder) == (("../raw_data",), Path("../models/a/b"), "../enc")
    assert "Paths count from .." in found.notes[0]
    monkeypatch.chdir(project)
    settings = resolve(TrainMplSettings, files=(Path("config/exp.json"),)).settings
    assert (settings.data, settings.run.out) == (("./raw_data",), Path("models/a/b"))


def test_the_guides_own_example_is_read(shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "raw_data/processed_data").mkdir(parents=True)
    (tmp_path / "raw_data/processed_data/norm_template.json").touch()
    text = (shared / "guides" / GUIDE).read_text(encoding="utf-8")
    example = re.search(r"```json\n(.*?)```", text[text.index("主配置文件") :], re.DOTALL)
    assert example is not None
    assert "//" in example[1]
    settings = read(tmp_path / "exp_phase_mpl.json", example[1]).settings
    assert [stage.trainer["freerun_weight"] for stage in settings.stages] == [0.0, 0.175, 0.325]
    assert settings.teacher.end_epoch == 19
    assert settings.bundle == Path("raw_data/processed_data/norm_template.json")


def test_a_normalisation_that_is_not_there_is_left_out_and_said(tmp_path: Path) -> None:
    found = read(tmp_path / "a.json", '{"bundle_json": "./raw/norm_template.json", "epochs": 3}')
    assert found.settings.bundle is None
    assert any(
        "bundle_json: ./raw/norm_template.json is not there, and the statistics are those of the clips" in note
        for note in found.notes
    )
    # Beside the folder that the paths count from it is found; what is there is read, whatever it holds.
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw/norm_template.json").touch()
    found = read(tmp_path / "a.json", '{"bundle_json": "raw/norm_template.json", "data": "raw", "epochs": 3}')
    assert found.settings.bundle == tmp_path / "raw/norm_template.json"
    # motionkit's own name for it is not the guide's: a typing error is none to go on from.
    found = read(tmp_path / "b.json", '{"bundle": "nothing.json", "run": {"epochs": 3}}')
    assert found.settings.bundle == Path("nothing.json")


@pytest.mark.parametrize(("name", "batch", "seq_len"), [("small", 4, 40), ("medium", 8, 60), ("large", 16, 120)])
def test_presets_are_the_guides_sizes(name: str, batch: int, seq_len: int) -> None:
    found = resolve(TrainMplSettings, {("preset",): name, ("model", "dropout"): "0.25"})
    assert (found.settings.train.batch_size, found.settings.train.seq_len) == (batch, seq_len)
    assert found.settings.model.dropout == 0.25
    assert found.origins["train.batch_size"] == f"preset {name}"


def test_a_typed_key_is_answered_as_one_of_a_file() -> None:
    with pytest.raises(SettingsError) as refused:
        resolve(TrainMplSettings, sets=("w_foot_slide=0.1",))
    assert "loss.skate" in str(refused.value)
    found = resolve(TrainMplSettings, sets=("num_workers=4", "seed=3"))
    assert found.settings.seed == 3
    assert found.notes == ("num_workers of the guide has no effect: windows are cut in memory",)
    with pytest.raises(SettingsError, match="unknown setting"):
        resolve(TrainMplSettings, sets=("w_feet=0.1",))
