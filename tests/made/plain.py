"""Objects with some of a protocol's members and its defaults, as those of a plugin that derives from no class."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from motionkit.contracts.dataset import TextMotionDataset
from motionkit.plugins import complete
from motionkit.text_to_motion.policy import DiffusionPolicy


class _Dataset(SimpleNamespace):
    pass


class _Policy(SimpleNamespace):
    pass


def plain_dataset(**members: Any) -> Any:
    """Return a dataset of motions with these members."""
    return complete(_Dataset(**{"name": "", "clips": lambda split: ()} | members), TextMotionDataset)


def plain_policy(**members: Any) -> Any:
    """Return a diffusion policy with these members."""
    return complete(_Policy(**members), DiffusionPolicy)


def plain(protocol: type) -> Any:
    """Return a decorator of classes that have some of a protocol's members: their objects get its defaults."""

    def decorate(cls: Any) -> Any:
        init = cls.__init__

        def build(self: Any, *words: Any, **more: Any) -> None:
            if init is not object.__init__:
                init(self, *words, **more)
            complete(self, protocol)

        cls.__init__ = build
        return cls

    return decorate
