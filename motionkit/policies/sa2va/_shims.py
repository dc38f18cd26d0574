"""What Sa2VA's published code needs of packages that its parts never use; in place while that code is imported only."""

from __future__ import annotations

import importlib
import logging
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout
from importlib.machinery import ModuleSpec
from io import StringIO
from types import ModuleType
from typing import Any

from torch import Tensor, nn

_logger = logging.getLogger("motionkit.sa2va")


@contextmanager
def shims() -> Iterator[None]:
    """Hold all of them."""
    with ExitStack() as stack:
        stack.enter_context(quiet())
        for shim in (without_torchvision, without_timm, without_einops):
            stack.enter_context(shim())
        yield


@contextmanager
def quiet() -> Iterator[None]:
    """Keep what the code prints on import (its configuration, a missing flash-attn) out of ours, which may be JSON.

    ``-v`` shows it.
    """
    said = StringIO()
    try:
        with redirect_stdout(said):
            yield
    finally:
        for line in said.getvalue().splitlines():
            _logger.debug("printed by the model's code: %s", line)


@contextmanager
def without_torchvision() -> Iterator[None]:
    """Stand in for torchvision: its CPU build fits one version of torch, and fails on import beside others.

    The code prepares pixels with it, which motionkit does by itself.
    """
    from transformers.utils import is_torchvision_available

    is_torchvision_available()  # transformers asks once and keeps the answer: it must not meet the stand-in
    names = ("resize", "to_pil_image", "InterpolationMode", "Compose", "Lambda", "Resize", "ToTensor", "Normalize")
    parts = ("torchvision.transforms", "torchvision.transforms.functional")
    with _standing_in("torchvision", parts, dict.fromkeys(names)):
        yield


@contextmanager
def without_timm() -> Iterator[None]:
    """Stand in for timm, which needs torchvision: DropPath alone is taken of it, and drops nothing in eval mode."""
    with _standing_in("timm", ("timm.models", "timm.models.layers"), {"DropPath": _Kept}):
        yield


@contextmanager
def without_einops() -> Iterator[None]:
    """Stand in for einops: InternLM2 splits heads with its one function, and motionkit does not ask for the package."""
    with _standing_in("einops", (), {"rearrange": _rearranged}):
        yield


def _rearranged(tensor: Tensor, pattern: str, **sizes: int) -> Tensor:
    """Split one axis or join some, as ``b q (h d) -> b q h d`` says; their order stays."""
    left, right = (side.split("(") for side in pattern.split("->"))
    before, after = (re.findall(r"\w+", side) for side in pattern.split("->"))
    if before != after or len(left) > 2 or len(right) > 2:
        raise RuntimeError(f"einops is not installed, and motionkit does not rearrange {pattern!r}")
    if len(left) == 2:
        axis, names = len(left[0].split()), left[1].split(")")[0].split()
        tensor = tensor.unflatten(axis, [sizes.get(name, -1) for name in names])
    if len(right) == 2:
        axis, names = len(right[0].split()), right[1].split(")")[0].split()
        tensor = tensor.flatten(axis, axis + len(names) - 1)
    return tensor


class _Kept(nn.Identity):
    """A layer of eval mode: the vision encoder is frozen."""

    def __init__(self, rate: float = 0.0, *_: Any) -> None:
        super().__init__()


@contextmanager
def _standing_in(package: str, parts: tuple[str, ...], names: dict[str, Any]) -> Iterator[None]:
    """Put an empty package in place of one that cannot be imported; a call of what is not there says so."""
    if _imports(package):
        yield
        return
    made = {name: ModuleType(name) for name in (package, *parts)}
    for name, module in made.items():
        module.__spec__ = ModuleSpec(name, None, is_package=True)
        module.__path__ = []
        for own, value in names.items():
            setattr(module, own, _absent(package, own) if value is None else value)
        if "." in name:
            above, _, last = name.rpartition(".")
            setattr(made[above], last, module)
    before = {name: sys.modules[name] for name in sys.modules if name == package or name.startswith(f"{package}.")}
    sys.modules.update(made)
    try:
        yield
    finally:
        for name in made:
            del sys.modules[name]
        sys.modules.update(before)


def _imports(package: str) -> bool:
    try:
        importlib.import_module(package)
    except (ImportError, RuntimeError, AttributeError, OSError):  # torchvision of another torch raises the second
        return False
    return True


def _absent(package: str, name: str) -> Callable[..., Any]:
    class Absent:
        """Has every attribute that a default argument may read."""

        BICUBIC = "bicubic"

        def __init__(self, *_: object, **__: object) -> None:
            raise RuntimeError(f"{package}.{name} is not installed, and motionkit does not call it")

    return Absent
