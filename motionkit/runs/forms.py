"""The forms in which systems save models: how a model is recognised, and in which words it is shown and used.

A system has a table of its forms, which its `motionkit.plugins.Component` names as ``models``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from motionkit import plugins
from motionkit.documents import read_json
from motionkit.errors import MotionkitError
from motionkit.runs._checkpoint import last_checkpoint
from motionkit.runs._model import TENSORS, SavedModel, find_model
from motionkit.runs._record import read_record

POLICY, POLICY_DOCUMENT = "policy", "policy.json"
"""Folder of a policy in a run, and its document, which names the plugin that opens it as ``kind``."""

CONFIG = "config.json"
"""Document of an encoder's folder, which names what it is as ``format``."""

_AGAIN = "copy the folder again."


@dataclass(frozen=True)
class ModelForm:
    """A form in which a system saves models."""

    artifact: str  # Its folder in a run
    document: str  # Its description there
    what: str  # In words, with an article
    use: str  # A command that uses it; FOLDER stands for the folder or its id on the hub, TEXT for a caption
    tags: tuple[str, ...] = ()  # Of the hub
    python: str = ""  # Lines of Python that do the same, with the same words; empty for none
    # ``kind`` of its document, ``format`` of a `CONFIG`; empty if no other form has a document of this name.
    word: str = ""
    # Kind and name of the plugin that `export` and `eval` open it with, such as ``("policies", NAME)``; None if they do
    # not take it.
    plugin: tuple[str, str] | None = None
    called: str = ""  # In messages, with an article; empty for ``a policy of kind NAME``
    described: str = ""  # Word in what `motionkit.weights.describe` says of a file that this plugin opens
    protocol: str = ""  # Protocol of `eval` that measures it by default; empty for the one of what its plugin gives
    blind: str = "Its run kept no audit of a reward."  # What a card says where no audit of the run says what it misses
    # Called with the path and the document of a model; raises if nobody else could open it.
    refuse: Callable[[str, Mapping[str, Any]], None] | None = None

    def find(self, folder: Path) -> SavedModel | None:
        """Find such a model in its own folder, in a run, or in one of a run's checkpoints; None if there is none."""
        if self.document == CONFIG:
            for place in (folder / self.artifact, folder):
                if encoder_format(place) == self.word:
                    run = place.parent if (place.parent / "run.json").is_file() else None
                    return SavedModel(place / CONFIG, encoder_weights(place) or place / TENSORS, run)
            return None
        saved = find_model(folder, self.artifact, self.document)
        return saved if saved is None or self.word in ("", kind_of(saved)) else None


def model_forms(*others: plugins.Component) -> list[ModelForm]:
    """Return the forms of motionkit's own systems, then those that the components of other packages name."""
    return [form for forms in plugins.named("models", *others) for form in forms]


def forms_for(folder: Path) -> list[ModelForm]:
    """Return the forms that a folder may hold: motionkit's own, and those of the packages that its files name."""
    return model_forms(*_named_in(folder))


def _named_in(folder: Path) -> Iterator[plugins.Component]:
    """Yield the trainer of the run that a folder is or lies in, and the plugin of the policy that it holds."""
    with suppress(MotionkitError):  # a damaged run, or a package that is not here
        for place in (folder, folder.parent, folder.parent.parent):  # a run, its RUN/policy, a checkpoint
            if (record := read_record(place)) is not None:
                yield from filter(None, [plugins.trainer_of(record.command)])
                break
    with suppress(MotionkitError):
        saved = find_model(folder, POLICY, POLICY_DOCUMENT)
        if saved is not None and not plugins.is_file(kind := kind_of(saved)):
            yield plugins.get("policies", kind)


def kind_of(saved: SavedModel) -> str:
    """Return the ``kind`` in a model's document; empty if it has none."""
    return str(read_json(saved.document, dict, fix=_AGAIN).get("kind", ""))[:40]


def encoder_config(folder: Path) -> dict[str, Any]:
    """Return the config.json of a folder; empty if there is none."""
    config = folder / CONFIG
    return read_json(config, dict, fix="copy it again.") if config.is_file() else {}


def encoder_format(folder: Path) -> object:
    """Return the format that an encoder's folder names; None if it is not such a folder."""
    return encoder_config(folder).get("format") if encoder_weights(folder) is not None else None


def encoder_weights(folder: Path) -> Path | None:
    """Return the weights of an encoder's folder; None if it has none.

    A run writes the folder's config.json at its start and the weights at its end. Until then they are those of the
    run's last checkpoint.
    """
    if (folder / TENSORS).is_file():
        return folder / TENSORS
    last = last_checkpoint(folder.parent / "checkpoints") if (folder / CONFIG).is_file() else None
    return None if last is None else last / TENSORS
