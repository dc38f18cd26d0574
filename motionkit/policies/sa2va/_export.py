"""A trained Sa2VA as a folder of Hugging Face: adapters merged, names of the base's weights, none of its code run."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from motionkit import weights
from motionkit.errors import MotionkitError
from motionkit.policies.base import REGION_ARTIFACT
from motionkit.policies.sa2va import Sa2vaOptions
from motionkit.policies.sa2va._document import DOCUMENT, read_document
from motionkit.policies.sa2va._place import find_base, mark_of, refuse_other
from motionkit.runs import OutputFolder, find_model

_DOWN, _UP = ".lora_A.default.weight", ".lora_B.default.weight"
_COPIED = (".json", ".txt", ".model", ".py", ".jinja")


def export_hf(checkpoint: str, folder: Path, *, overwrite: bool = False) -> tuple[Path, list[str]]:
    """Write config.json, tokenizer and weights as the base has them; see `motionkit.plugins.Component.exports`.

    Weights keep the precision of the base. One file of the base is in memory at a time.

    Raises:
        MotionkitError: The checkpoint cannot be read, its base is not in place, or `folder` is in use.
    """
    place = OutputFolder(folder, "export.json", "motionkit-export", overwrite=overwrite)
    place.claim()
    saved = find_model(Path(checkpoint).expanduser(), REGION_ARTIFACT, DOCUMENT)
    if saved is None:
        raise MotionkitError(f"{checkpoint} is no trained Sa2VA.", fix="give a run of sa2va-rl or its policy folder.")
    document = read_document(saved.document)
    moved = f"set base.place in {saved.document} to where it is now."
    base, _ = find_base(document.base.place, document.base.revision, moved=moved)
    refuse_other(base, mark_of(base), document.base.mark, checkpoint, fix=moved)
    options = Sa2vaOptions.model_validate({"checkpoint": checkpoint, **document.options})
    scale = options.lora_alpha / max(1, options.lora_rank)
    changes = Changes(weights.read(saved.tensors), scale)
    with place.beside() as part:
        for path in sorted(base.iterdir()):
            if path.suffix in _COPIED:
                shutil.copyfile(path, part / path.name)
            elif path.suffix == ".safetensors":
                save_file(dict(changes.applied(path)), str(part / path.name), metadata={"format": "pt"})
        if left := changes.left():
            raise MotionkitError(f"{base} has no {left[0]}, which was trained.", fix=moved)
    place.settle(part, {"schema": 1, "to": "hf", "checkpoint": checkpoint})
    return folder / "config.json", []


class Changes:
    """What training changed of a base's weights.

    Args:
        trained: Trained weights by name; of an adapter the two factors.
        scale: What the product of the factors is multiplied with.
    """

    def __init__(self, trained: Mapping[str, Tensor], scale: float) -> None:
        self._trained, self._scale, self._done = trained, scale, set[str]()

    def applied(self, path: Path) -> Iterator[tuple[str, Tensor]]:
        """Yield the tensors of a file of safetensors, changed."""
        with safe_open(path, framework="pt") as file:
            for name in file.keys():  # noqa: SIM118 -- a handle, no mapping
                yield name, self._changed(name, file.get_tensor(name)).contiguous()

    def left(self) -> list[str]:
        """Return the trained weights that no file had."""
        return sorted(self._trained.keys() - self._done)

    def _changed(self, name: str, tensor: Tensor) -> Tensor:
        if name in self._trained:
            self._done.add(name)
            return self._trained[name].to(tensor.dtype)
        layer = name.removesuffix(".weight")
        if (down := layer + _DOWN) not in self._trained:
            return tensor
        up = layer + _UP
        self._done |= {down, up}
        added = self._scale * self._trained[up].float() @ self._trained[down].float()
        return (tensor.float() + added).to(tensor.dtype)
