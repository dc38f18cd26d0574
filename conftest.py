"""Fixtures that every test may use."""

from __future__ import annotations

import gc
import importlib
import json
import os
import string
import sys
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import hypothesis
import pytest
from typer.testing import CliRunner, Result

from motionkit.cli import get_app
from motionkit.plugins._discovery import forget
from tests.made.forks import Forks
from tests.made.idle import Idle

ROOT = Path(__file__).resolve().parent
collect_ignore_glob = ["plugins/*/src/*"]  # templates of packages have tests

# The same examples every time: what passes here passes everywhere.
# HYPOTHESIS_PROFILE=search looks at new ones.
hypothesis.settings.register_profile("house", derandomize=True, deadline=None)
hypothesis.settings.register_profile("search", deadline=None)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "house"))


def pytest_collection_finish() -> None:
    """Leave what all tests share, modules and the tests themselves, out of garbage collection, and collect seldom.

    Each is 5 % of their time.
    """
    gc.freeze()
    gc.set_threshold(100_000, 50, 1000)


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable() -> Generator[None, Any, Any]:
    """Escape lone surrogates, which tests of odd file names print: pytest-xdist sends reports as UTF-8."""
    return _as_utf8((yield))


def _as_utf8(data: Any) -> Any:
    if isinstance(data, str):
        return data.encode("utf-8", "backslashreplace").decode()
    if isinstance(data, dict):
        return {key: _as_utf8(value) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return type(data)(map(_as_utf8, data))  # pytest wants the place of a skip as a tuple
    return data


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of recorded fixtures beside the repository; tests that need it skip, by name, where it is absent."""
    folder = ROOT.parent / "shared"
    if not (folder / "fixtures").is_dir():
        pytest.skip("../shared (recorded fixtures and data) is not here")
    return folder


@pytest.fixture(scope="session")
def forks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forks]:
    """Processes that begin with torch imported, and nothing of motionkit."""
    with Forks(tmp_path_factory.mktemp("forks")) as found:
        yield found


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    """Keep torch to one thread: tests are tiny, and results must not depend on the machine's cores.

    A run in this process may have chosen oneDNN; that is put back as well.
    """
    if (torch := sys.modules.get("torch")) is not None:
        if torch.get_num_threads() != 1:
            torch.set_num_threads(1)
        torch.backends.mkldnn.matmul.fp32_precision = "none"


@pytest.fixture(autouse=True, scope="session")
def _no_wait_for_the_disk() -> Iterator[None]:
    """Leave out fsync, which only a power cut could tell: it takes milliseconds, hundreds of times in a run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda file: None)
        yield


@pytest.fixture
def root() -> Path:
    """The repository's root."""
    return ROOT


class Site:
    """A folder on the import path into which tests install packages, the way pip would leave them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def install(self, name: str, entry_points: str, *, version: str = "1.0", **modules: str) -> Path:
        """Install a package: its metadata, and each module's source."""
        info = self.folder / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nSummary: The {name} package.\n"
        )
        (info / "entry_points.txt").write_text(entry_points)
        for module, source in modules.items():
            (self.folder / f"{module}.py").write_text(source)
        importlib.invalidate_caches()
        forget()
        return info


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """An empty folder on the import path; what it installs is gone after the test."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setattr("motionkit.plugins._guard._owners", {})
    before = set(sys.modules)
    forget()
    yield Site(folder)
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "") or "").startswith(str(folder)):
            del sys.modules[name]
    forget()


@pytest.fixture
def sample(site: Site) -> ModuleType:
    """The module of tests/sample_plugins.py, installed as package ``sample-plugins`` with its entry points."""
    site.install(
        "sample-plugins",
        "[motionkit.rewards]\nnear = sample_plugins:near\nfar = sample_plugins:far\n"
        "[motionkit.policies]\nsmall = sample_plugins:small\nlarge = sample_plugins:large\n",
        sample_plugins=(ROOT / "tests" / "sample_plugins.py").read_text(),
    )
    return importlib.import_module("sample_plugins")


@pytest.fixture
def trainer(site: Site, sample: ModuleType) -> ModuleType:
    """The module of tests/sample_trainer.py, installed as trainer ``count`` of package ``count-trainer``."""
    site.install(
        "count-trainer",
        "[motionkit.trainers]\ncount = sample_trainer:component\ndeep.count = sample_trainer:component\n",
        sample_trainer=(ROOT / "tests" / "sample_trainer.py").read_text(),
    )
    return importlib.import_module("sample_trainer")


@pytest.fixture
def tuned(site: Site, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module of tests/tuned_trainer.py, installed as trainers ``tuned`` and ``tuned-plain``, in children too."""
    site.install(
        "tuned-trainer",
        "[motionkit.trainers]\ntuned = tuned_trainer:component\ntuned-plain = tuned_trainer:plain\n",
        tuned_trainer=(ROOT / "tests" / "tuned_trainer.py").read_text(),
    )
    monkeypatch.setenv("PYTHONPATH", str(site.folder))
    return importlib.import_module("tuned_trainer")


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Run ``motionkit ARGUMENTS...`` in process, in an empty folder, without MOTIONKIT_* variables."""
    for name in list(os.environ):
        if name.startswith("MOTIONKIT_"):
            monkeypatch.delenv(name)
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setenv("COLUMNS", "220")
    monkeypatch.setenv("NO_COLOR", "1")

    def run(*arguments: object, env: dict[str, str] | None = None) -> Result:
        # A command reads its arguments from sys.argv only for the record; the runner hands them over itself.
        return CliRunner(env=env or {}).invoke(get_app(), [str(argument) for argument in arguments])

    return run


_HERE_ONLY = ("--resume", "--config")  # they must name something that exists, which a reader's own run does not here


@pytest.fixture
def dry(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cli: Callable[..., Result]
) -> Callable[[list[str]], tuple[str, Result]]:
    """Parse a command line and resolve its settings, but open and run nothing."""
    from typer.core import TyperCommand

    from motionkit.plugins import Component

    seen: list[str] = []
    invoke = TyperCommand.invoke

    def stop(self: Any, ctx: Any) -> Any:
        seen.append(ctx.command_path)
        return invoke(self, ctx) if ctx.params.get("dry_run") else None

    monkeypatch.setattr(TyperCommand, "invoke", stop)
    monkeypatch.setattr(Component, "build", lambda *_, **__: Idle())
    for caller in ("_trainer", "_command"):  # what the commands name is the reader's, and not here
        monkeypatch.setattr(f"motionkit.cli.{caller}.require_places", lambda settings: None)
    monkeypatch.setattr("motionkit_fbx.blender.require_blender", lambda settings: None)
    # Not the clone itself, in which the reader's own runs may stand.
    place = tmp_path / "clone"
    place.mkdir()
    for name in ("examples", "plugins"):
        (place / name).symlink_to(ROOT / name)
    monkeypatch.chdir(place)

    def run(words: list[str]) -> tuple[str, Result]:
        kept: list[str] = []
        given = iter(words)
        for word in given:
            if word in _HERE_ONLY and not Path(value := next(given)).exists():
                made = "run" in value or "suggested" in value  # by a command before it
                assert made, f"{word} {value}: neither here nor a run of the reader's"
            else:
                kept += [word, value] if word in _HERE_ONLY else [word]
        settings = kept[:1] in (["grpo"], ["pretrain"], ["generate"])
        result = cli(*kept, *(["--dry-run"] if settings and "--dry-run" not in kept else []))
        return (seen or [""])[-1], result

    return run


class TextModels:
    """Makes tiny transformers folders with random weights, as published models are laid out.

    Args:
        folder: Where they go.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def distilbert(self, name: str, *, seed: int = 0, width: int = 16) -> Path:
        """Make a DistilBERT."""
        import torch
        import transformers

        folder = self.folder / name
        folder.mkdir()
        words = ["a", "man", "walks", "jumps", "then", "and", "he", "sits", "fast", "slowly"]
        vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words, *string.ascii_lowercase[1:]]
        (folder / "vocab.txt").write_text("\n".join(vocabulary) + "\n")
        transformers.BertTokenizer(str(folder / "vocab.txt")).save_pretrained(folder)
        torch.manual_seed(seed)
        config = transformers.DistilBertConfig(
            vocab_size=len(vocabulary), dim=width, n_layers=2, n_heads=2, hidden_dim=32, max_position_embeddings=32
        )
        transformers.DistilBertModel(config).save_pretrained(folder)
        return folder

    def clip(self, name: str, *, seed: int = 0) -> Path:
        """Make a CLIP with both towers, 12 features wide."""
        import torch
        import transformers

        folder = self.folder / name
        folder.mkdir()
        letters = list(string.ascii_lowercase)
        vocabulary = [*letters, *(letter + "</w>" for letter in letters), "<|startoftext|>", "<|endoftext|>"]
        (folder / "vocab.json").write_text(json.dumps({token: i for i, token in enumerate(vocabulary)}))
        (folder / "merges.txt").write_text("#version: 0.2\n")
        transformers.CLIPTokenizer(vocab=str(folder / "vocab.json"), merges=str(folder / "merges.txt")).save_pretrained(
            folder
        )
        torch.manual_seed(seed)
        small = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
        ends = {"bos_token_id": len(vocabulary) - 2, "eos_token_id": len(vocabulary) - 1, "pad_token_id": 0}
        config = transformers.CLIPConfig(
            text_config={
                **small,
                **ends,
                "vocab_size": len(vocabulary),
                "max_position_embeddings": 77,
                "projection_dim": 12,
            },
            vision_config={**small, "image_size": 8, "patch_size": 4, "projection_dim": 12},
            projection_dim=12,
        )
        transformers.CLIPModel(config).save_pretrained(folder)
        return folder


@pytest.fixture(scope="session")
def text_models(tmp_path_factory: pytest.TempPathFactory) -> TextModels:
    """Make text models in a folder of this session."""
    pytest.importorskip("transformers")
    return TextModels(tmp_path_factory.mktemp("text-models"))


@pytest.fixture(scope="session")
def distilbert(text_models: TextModels) -> Path:
    """A DistilBERT folder."""
    return text_models.distilbert("distilbert")


@pytest.fixture(scope="session")
def clip(text_models: TextModels) -> Path:
    """A CLIP folder."""
    return text_models.clip("clip")


@pytest.fixture(scope="session")
def other_clip(text_models: TextModels) -> Path:
    """A CLIP folder with other weights."""
    return text_models.clip("other-clip", seed=1)
