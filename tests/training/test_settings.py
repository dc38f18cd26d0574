"""The settings that all trainers share, and files of other programs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from motionkit.config import Cli, Foreign, Group, Settings, SettingsError, resolve, split_commas
from motionkit.config._tree import from_text
from motionkit.text_to_motion.settings import LoraSettings
from motionkit.training.guide_yaml import renamed as in_words
from motionkit.training.settings import OptimSettings, RunSettings, TrainerSettings

FLAGS = [
    *("--out", "--name", "--num-steps", "--overwrite", "--resume"),
    *("--cpu-matmul", "--device", "--seed", "--precision", "--threads", "--track"),
    *("--learning-rate", "--lora", "--lora.r", "--lora.alpha", "--lora.dropout", "--lora.targets"),
]


def flags(model: type[Group]) -> list[str]:
    return [mark.flag for field in model.model_fields.values() for mark in field.metadata if isinstance(mark, Cli)]


def test_every_flag_of_the_contract_is_there_once() -> None:
    found = [flag for model in (RunSettings, TrainerSettings, OptimSettings, LoraSettings) for flag in flags(model)]
    assert sorted(found) == sorted(FLAGS)


@pytest.mark.parametrize(
    ("given", "expected"),
    [("auto", "auto"), ("CPU", "cpu"), ("cuda", "cuda"), ("cuda:1", "cuda:1"), ("2", "cuda:2"), (0, "cuda:0")],
)
def test_devices(given: object, expected: str) -> None:
    assert TrainerSettings.model_validate({"device": given}).device == expected


@pytest.mark.parametrize("given", ["gpu", "cuda:", "cuda:1000", "cuda:٣", "٣", "cuda:-1", "", None, True, 1.5])
def test_what_is_no_device(given: object) -> None:
    with pytest.raises(ValidationError, match="must be auto, cpu, mps, cuda, cuda:N or N"):
        TrainerSettings.model_validate({"device": given})


def test_lists_may_be_written_with_commas_or_repeated() -> None:
    assert LoraSettings.model_validate({"targets": "attn, text"}).targets == ("attn", "text")
    assert TrainerSettings.model_validate({"track": ["wandb,mlflow", "wandb"]}).track == ("wandb", "mlflow")
    with pytest.raises(ValidationError):
        TrainerSettings.model_validate({"track": ["excel"]})
    with pytest.raises(ValidationError):
        LoraSettings.model_validate({"targets": []})


def test_numbers_of_a_list_stay_numbers() -> None:
    assert split_commas([0.05, "attn, text", 0.05, ["x"], ["x"]]) == (0.05, "attn", "text", ["x"])
    assert from_text(tuple[float, ...], [0.05, 0.04]) == [0.05, 0.04]
    assert from_text(tuple[float, ...], ["0.05, 0.04", 1]) == ["0.05", "0.04", 1]
    assert from_text(tuple[float, ...], "[" * 300) == "[" * 300


@pytest.mark.parametrize("value", [float("inf"), float("nan"), "-inf", "1e999"])
def test_numbers_are_finite(value: object) -> None:
    with pytest.raises(ValidationError, match="finite number"):
        OptimSettings(learning_rate=value)


def test_whole_numbers_have_64_bits() -> None:
    with pytest.raises(ValidationError, match="at most 64 bits"):
        OptimSettings(warmup_steps=2**63)


@pytest.mark.parametrize("name", ["a/b", "..", "", ".hidden", "a b"])
def test_a_name_is_one_plain_folder(name: str) -> None:
    with pytest.raises(ValidationError, match="plain folder name"):
        RunSettings(name=name)


def test_a_snapshot_reloads_to_an_equal_object() -> None:
    settings = TrainerSettings(run=RunSettings(out=Path("x/y")), device="1", track=("wandb",), seed=7)
    assert TrainerSettings.model_validate_json(settings.model_dump_json()) == settings


class Inner(Group):
    size: int = 1
    rate: float = 0.5


class Own(Settings):
    inner: Inner = Inner()
    name: str = ""

    @classmethod
    def translate(cls, table: Mapping[str, Any], path: Path) -> Foreign | None:
        if "their_size" not in table:
            return None
        found = Foreign(path)
        found.put("inner.size", table["their_size"], "their_size")
        found.notes.append("their file.")
        return found


def test_values_come_from_the_file_with_their_own_key_as_origin(tmp_path: Path) -> None:
    file = tmp_path / "their.json"
    file.write_text('{"their_size": 7, "their_other": 1} // theirs')
    found = resolve(Own, {("name",): "x"}, files=(file,))
    assert (found.settings.inner.size, found.settings.inner.rate, found.settings.name) == (7, 0.5, "x")
    assert found.origins["inner.size"] == f"{file}: their_size"
    assert found.notes == ("their file.",)


def test_own_files_and_other_settings_are_read_as_before(tmp_path: Path) -> None:
    file = tmp_path / "own.json"
    file.write_text('{"inner": {"size": 3}}')
    assert resolve(Own, files=(file,)).settings.inner.size == 3
    file.write_text('{"their_size": 7}')
    with pytest.raises(SettingsError, match="their_size"):
        resolve(TrainerSettings, files=(file,))


def test_a_wrong_value_is_told_with_the_key_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "their.json"
    file.write_text('{"their_size": "many"}')
    with pytest.raises(SettingsError, match=r"inner\.size = 'many'  \(from .*their.json: their_size\)"):
        resolve(Own, files=(file,))


def test_renamed_names_what_moved_first() -> None:
    assert in_words({"a": "a", "b": "x.b", "c": "c"}) == "b → x.b, unchanged: a, c"


def test_a_run_may_be_resumed_in_the_folder_that_a_file_names(tmp_path: Path) -> None:
    RunSettings(out=tmp_path, resume=tmp_path)
    RunSettings(out=tmp_path, resume=tmp_path / "checkpoints/step-00000003")
    for other in (tmp_path / "other", tmp_path.parent):
        with pytest.raises(ValueError, match="leave out --out"):
            RunSettings(out=tmp_path, resume=other)
