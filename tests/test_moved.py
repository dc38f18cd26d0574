"""Old paths of modules go on working until 0.3."""

import importlib
import sys
import warnings
from pathlib import Path

import pytest

from motionkit._moved import SEVERAL, moved

from .made.forks import Forks

PACKAGE = Path(__file__).parents[1] / "motionkit"


def test_every_old_path_gives_the_module_of_today() -> None:
    for old, new in moved().items():
        today = importlib.import_module(f"motionkit.{new}")
        spec = today.__spec__
        sys.modules.pop(f"motionkit.{old}", None)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of packages on the way, once each
            importlib.import_module(f"motionkit.{old}".rpartition(".")[0])
        with pytest.warns(DeprecationWarning, match=rf"motionkit.{new} now"):
            assert importlib.import_module(f"motionkit.{old}") is today, old
        assert today.__spec__ is spec
        assert today.__name__ == f"motionkit.{new}"


def test_an_old_path_that_is_in_several_modules_today_has_the_names_of_all() -> None:
    for old, homes in SEVERAL.items():
        sys.modules.pop(f"motionkit.{old}", None)
        with pytest.warns(DeprecationWarning, match="goes with 0.3"):
            before = importlib.import_module(f"motionkit.{old}")
        for home in homes:
            today = importlib.import_module(f"motionkit.{home}")
            for name in getattr(today, "__all__", ()):
                assert hasattr(before, name)
        with pytest.raises(AttributeError, match="nothing_of_the_kind"):
            before.nothing_of_the_kind  # noqa: B018


def test_no_old_path_is_a_module_of_today() -> None:
    for old in moved():
        place = PACKAGE.joinpath(*old.split("."))
        assert not place.with_suffix(".py").exists(), old
        assert not (place / "__init__.py").exists(), old


@pytest.mark.parametrize(
    "line",
    [
        "from motionkit.rewards.base import FrameBatch",
        "from motionkit.policies.mdm.api import open_policy",
        "import motionkit.formats.bvh._read",
        "from motionkit.evaluation import trained_on",
    ],
)
def test_an_old_path_is_enough_by_itself(line: str, forks: Forks) -> None:
    done = forks.run("-c", f"import warnings\nwarnings.simplefilter('always', DeprecationWarning)\n{line}")
    assert done.returncode == 0, done.stderr
    assert "goes with 0.3" in done.stderr
