"""Opens the folders that Kimodo's models come in, and writes them again.

A folder has config.yaml, a file of weights and statistics of the features in stats/motion. The config names classes of
Kimodo's code; it is read as data, and nothing that it names is executed.
"""

from __future__ import annotations

import json
import logging
import math
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any, Literal

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, Field
from safetensors.torch import save_file
from torch import Tensor

from motionkit import weights
from motionkit.documents import read_model, read_yaml
from motionkit.errors import MotionkitError
from motionkit.geometry import positions_from_bones
from motionkit.motion import DataRecord, Normalizer
from motionkit.nn import add_adapters, merged_state, native_keys, stock_keys
from motionkit.rigs import default_rest
from motionkit.runs import OutputFolder, find_model
from motionkit_policy_kimodo.network import EPSILON, STEPS, Conditions, Guidance, KimodoNetwork, Shape
from motionkit_policy_kimodo.representation import LOCAL, ROOT, KimodoRepresentation
from motionkit_policy_kimodo.skeletons import SMPLX, Body, body, read_smplx, require_array

CONFIG, STATISTICS, JOINTS = "config.yaml", "stats/motion", "joints.npy"
FOLDER, DOCUMENT = "policy", "policy.json"
POLICY, RETRIEVAL = "Kimodo", "TMR"
FILES = ("config.yaml", "policy.json", "*.safetensors", "*.npy", "last_weights/*.pt")  # of a model on the hub
_PREFIX = "denoiser.backbone."
_BODIES = {"SOMASkeleton30": "soma30", "G1Skeleton34": "g1", "SMPLXSkeleton22": SMPLX}
_CLASSES = {POLICY, RETRIEVAL, "TwostageDenoiser", "KimodoMotionRep", "TMRMotionRep", *_BODIES}
_VALUES: dict[str, dict[str, tuple[Any, ...]]] = {
    POLICY: {
        "norm_first": (False, True),
        "activation": ("gelu", "relu"),
        "input_first_heading_angle": (False, True),
        "use_text_mask": (False, True),
        "motion_mask_mode": ("concat",),
        "num_base_steps": (STEPS,),
        "cfg_type": ("separated", "regular", "nocfg", None),
    },
    RETRIEVAL: {"norm_first": (False,), "activation": ("gelu",), "unit_vector": (True,), "vae": (True,)},
}
"""Keys of each model with the values that are supported; the first is that of a config without the key."""

_SHAPE = {
    "use_text_mask": "text_mask", "num_text_tokens_override": "text_slots", "latent_dim": "latent",
    "ff_size": "feedforward", "num_layers": "layers", "num_heads": "heads", "activation": "activation",
    "norm_first": "norm_first", "input_first_heading_angle": "heading",
}  # fmt: skip
"""Keys of a policy, and the fields of `Shape` that they are."""

_READ = {"llm_shape", *_SHAPE, "dropout", "pe_dropout", "fps", "ckpt_path", "ckpt_folder", "stats_path"}
_USE = {
    POLICY: ("policy", "give one; the retrieval model is a reward: --reward kimodo-tmr --reward.weights FOLDER"),
    RETRIEVAL: ("retrieval model (TMR)", "give its folder, or its id: nvidia/TMR-SOMA-RP-v1"),
}
_MOST = {"num_layers": 200, "num_text_tokens_override": 1000}
_FRAMES = 150  # of the prediction of `check`
_AGAIN = "copy or download the folder again."
_logger = logging.getLogger("motionkit.kimodo")


@dataclass(frozen=True)
class Config:
    """A config.yaml: the classes that it names, and its values by their keys, wherever they are."""

    path: Path
    classes: frozenset[str]
    values: Mapping[str, Any]

    def sizes(self, key: str, count: int) -> list[int]:
        """Return a list of `count` whole numbers above 0."""
        value = self.values.get(key)
        listed: list[Any] = value if isinstance(value, list) else [value]
        if len(listed) != count or not all(
            type(size) is int and 0 < size <= _MOST.get(key, 1 << 16) for size in listed
        ):
            raise MotionkitError(f"{self.path}: {key} is {value!r}, not a size of a network.", fix=_AGAIN)
        return listed

    def size(self, key: str) -> int:
        """Return a whole number above 0."""
        return self.sizes(key, 1)[0]

    def file(self, key: str, default: str) -> Path:
        """Return a file or folder of the checkpoint: the last part of what the config says, beside it."""
        return self.path.parent / PurePosixPath(str(self.values.get(key) or default)).name


class Record(BaseModel):
    """Content of policy.json, beside the config and the statistics of a tuned model."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    schema_: Literal[1] = Field(1, alias="schema")
    kind: Literal["kimodo"] = "kimodo"
    file: str  # Name of the file of weights that it began as
    types: dict[str, str]  # Number type of each tensor in that file, by name, in its order
    body: Path | None = None  # File of SMPL-X's joints
    embeddings: Path | None = None  # Table of text vectors
    trained_on: DataRecord | None = None  # Dataset of supervised training
    guidance: float | None = Field(2.0, ge=0, le=1000, allow_inf_nan=False)
    sampling_steps: int | None = Field(100, ge=1, le=STEPS)
    lora: dict[str, Any] | None = None  # Adapters among the tensors, as `motionkit.nn.add_adapters` made them


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A model of Kimodo, with adapters merged."""

    folder: Path
    config: Config
    record: Record
    representation: KimodoRepresentation
    normalizer: Normalizer
    network: KimodoNetwork  # In eval mode


def read_checkpoint(source: str, *, smplx: Path | None = None, root_gradient: bool = False) -> Checkpoint:
    """Open a model of Kimodo.

    Args:
        source: Its folder, or its id on the hub, such as ``nvidia/Kimodo-SOMA-RP-v1.1``; or a run that tuned one, one
            of its checkpoints, or its policy.
        smplx: File of SMPL-X's joints (`read_smplx`), for models of that body that have no joints.npy.
        root_gradient: See `KimodoNetwork`.

    Raises:
        MotionkitError: The folder is another model's or incomplete, or the model is of a kind that is not supported.
    """
    folder = weights.located(source, files=FILES)
    saved = find_model(folder, FOLDER, DOCUMENT) if folder.is_dir() else None
    folder = folder if saved is None else saved.document.parent
    config = read_config(folder, POLICY)
    if saved is None:
        origin = config.file("ckpt_path", "model.safetensors")
        stored = _tensors(origin)
        types = {name: str(value.dtype).removeprefix("torch.") for name, value in stored.items()}
        free = {"guidance": 1.0} if config.values["cfg_type"] in ("nocfg", None) else {}
        record = Record(file=origin.name, types=types, **free)
        state = native_keys({name.removeprefix(_PREFIX): value.float() for name, value in stored.items()})
    else:
        origin, state = saved.tensors, weights.read(saved.tensors)
        record = read_model(saved.document, Record, "kimodo", ", not a policy of Kimodo.")
    if smplx is None:
        smplx = next((path for path in (folder / JOINTS, record.body) if path is not None and path.is_file()), None)
    representation = KimodoRepresentation(_body(config, smplx), float(config.size("fps")))
    normalizer, local = read_statistics(folder, representation.width)
    shape = _shape(config, representation.width)

    def make() -> KimodoNetwork:
        return KimodoNetwork(shape, representation.fps, root_gradient=root_gradient)

    def adapted() -> KimodoNetwork:
        network = make()
        add_adapters(network, **record.lora or {})
        return network

    if record.lora is not None:
        state = merged_state(weights.build(adapted, state, str(origin)))
    network = weights.build(make, state, str(origin))
    network.set_statistics(normalizer, local)
    record = record.model_copy(update={"body": smplx and smplx.resolve(), "lora": None})
    return Checkpoint(folder, config, record, representation, normalizer, network.eval())


def _tensors(path: Path) -> dict[str, Tensor]:
    if not path.is_file():
        raise MotionkitError(f"{path.parent} has no weights: {path.name} is missing.", fix=_AGAIN)
    content = weights.read(path)
    if (tensors := weights.find_tensors(content)) is None:
        raise MotionkitError(f"{path} holds no weights: it is {weights.describe(content)}.", fix=_AGAIN)
    return tensors


def _shape(config: Config, features: int) -> Shape:
    slots, width = config.sizes("llm_shape", 2)
    if config.values.get("num_text_tokens_override") is None:
        config = replace(config, values={**config.values, "num_text_tokens_override": slots})
    stated = _VALUES[POLICY]
    fields: dict[str, Any] = {
        field: config.values[key] if key in stated else config.size(key) for key, field in _SHAPE.items()
    }
    shape = Shape(features, width, **fields)
    if shape.latent % shape.heads or shape.latent % 2:
        raise MotionkitError(f"{config.path}: {shape.heads} heads do not divide a width of {shape.latent}.", fix=_AGAIN)
    return shape


def copy_beside(checkpoint: Checkpoint, folder: Path) -> None:
    """Copy config, statistics and joints of a model into a folder, byte for byte."""
    before = checkpoint.folder
    for file in (checkpoint.config.path, before / JOINTS, *sorted((before / STATISTICS).glob("*/*.npy"))):
        copy = folder / file.relative_to(before)
        if file.is_file() and copy.resolve() != file.resolve():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, copy)


def new_checkpoint(
    folder: Path, shape: Shape, representation: KimodoRepresentation, features: Tensor, local: Tensor, seed: int
) -> Path:
    """Write a model with random weights, and return its folder.

    Args:
        folder: Made.
        shape: Sizes of the network.
        representation: Of its body; of one in SMPL-X's layout the joints go into joints.npy.
        features: ``[F, D]`` frames, for the statistics.
        local: ``[F, 4]`` the root as the second stage reads it, for the same.
        seed: Draws the weights.
    """
    parts = {"global_root": features[:, :ROOT], "body": features[:, ROOT:], "local_root": local}
    for name, values in parts.items():
        (folder / STATISTICS / name).mkdir(parents=True)
        np.save(folder / STATISTICS / name / "mean.npy", values.double().mean(0).float().numpy())
        np.save(folder / STATISTICS / name / "std.npy", values.double().std(0).float().numpy())
    if representation.name == SMPLX:
        rest = positions_from_bones(representation.body.offsets, representation.parents) + default_rest()[0]
        np.save(folder / JOINTS, rest.numpy())
    skeleton = next(target for target, name in _BODIES.items() if name == representation.name)
    config = {
        "_target_": "kimodo.model.Kimodo", "num_base_steps": STEPS, "cfg_type": "separated",
        "denoiser": {
            "_target_": "kimodo.model.TwostageDenoiser", "motion_mask_mode": "concat",
            "ckpt_path": "${oc.select:checkpoint_dir}/model.safetensors",
            "motion_rep": {
                "_target_": "kimodo.motion_rep.KimodoMotionRep", "fps": int(representation.fps),
                "stats_path": "${oc.select:checkpoint_dir}/stats/motion/",
                "skeleton": {"_target_": f"kimodo.skeleton.{skeleton}"},
            },
            "llm_shape": [1, shape.text_width], **{key: getattr(shape, field) for key, field in _SHAPE.items()},
        },
    }  # fmt: skip
    (folder / CONFIG).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")  # JSON is YAML
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = KimodoNetwork(shape, representation.fps)
    save_file(stock_keys(merged_state(network)), folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def read_config(folder: Path, model: str) -> Config:
    """Read the config.yaml of a folder, which must be of `model` (`POLICY` or `RETRIEVAL`)."""
    path = folder / CONFIG
    if not path.is_file():
        raise MotionkitError(
            f"{folder} is no folder of a Kimodo model: it has no {CONFIG}.",
            fix="give a folder with config.yaml, weights and stats/motion, or its id: nvidia/Kimodo-SOMA-RP-v1.1",
        )
    classes: set[str] = set()
    values: dict[str, Any] = {}
    for key, value in _leaves(read_yaml(path, dict)):
        if key == "_target_":
            classes.add(_class(str(value), path))
        elif key in values and values[key] != value:
            raise MotionkitError(f"{path} has two values of {key}: {values[key]!r} and {value!r}.", fix=_AGAIN)
        else:
            values[key] = value
    if model not in classes:
        other = next((f", but a {_USE[kind][0]}" for kind in _USE if kind in classes), "")
        raise MotionkitError(f"{folder} is no {_USE[model][0]} of Kimodo{other}.", fix=_USE[model][1])
    for key, supported in _VALUES[model].items():
        if values.setdefault(key, supported[0]) not in supported:
            raise MotionkitError(
                f"{path}: {key} is {values[key]!r:.80}, which is not supported.",
                why=f"{' and '.join(map(repr, supported))} {'is' if len(supported) == 1 else 'are'}.",
                fix="give one of the released models, or one that was trained as they were.",
            )
    if unknown := sorted(values.keys() - _READ - _VALUES[model].keys()):
        _logger.warning("%s: %s is not read", path, ", ".join(unknown)[:200])
    return Config(path, frozenset(classes), values)


def _leaves(document: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in document.items():
        if isinstance(value, Mapping):
            yield from _leaves(value)
        else:
            yield str(key), value


def _class(target: str, path: Path) -> str:
    """Return the class that a target names, without its module and methods."""
    package, *parts = target.split(".")
    known = [part for part in parts if part in _CLASSES]
    if package != "kimodo" or not known:
        raise MotionkitError(
            f"{path} names {target[:100]!r}, which is not known.",
            why="a config names classes of Kimodo's code; they are recognised by name and never run.",
            fix=f"known are {', '.join(sorted(_CLASSES))}.",
        )
    return known[-1]


def _body(config: Config, smplx: Path | None) -> Body:
    names = [name for target, name in _BODIES.items() if target in config.classes]
    if len(names) != 1:
        raise MotionkitError(
            f"{config.path} names {len(names)} skeletons.", why=f"one of {', '.join(_BODIES)} is needed.", fix=_AGAIN
        )
    if names[0] != SMPLX:
        if smplx is not None:
            raise MotionkitError(
                f"{config.path.parent} is a model of {names[0]}, and needs no joints of SMPL-X.",
                fix=f"leave {smplx} out.",
            )
        return body(names[0])
    if smplx is None:
        raise MotionkitError(
            f"{config.path.parent} is a model of SMPL-X's body, which is not part of it.",
            why="SMPL-X's joints may not be passed on: they come from your own copy.",
            fix="--policy.body FILE (of pretrain: --body). FILE is kimodo/assets/skeletons/smplx22/joints.p of your "
            "Kimodo, or an SMPL-X file (.npz).",
        )
    return read_smplx(smplx)


def read_statistics(folder: Path, width: int) -> tuple[Normalizer, Normalizer]:
    """Return the statistics of `width` features, and of the root as the second stage reads it (4)."""
    made = []
    for parts in ({"global_root": ROOT, "body": width - ROOT}, {"local_root": LOCAL}):
        mean, std = (
            torch.cat([_vector(folder, f"{STATISTICS}/{part}/{name}.npy", size) for part, size in parts.items()])
            for name in ("mean", "std")
        )
        made.append(Normalizer(mean, (std.square() + EPSILON).sqrt()))
    return made[0], made[1]


def _vector(folder: Path, name: str, size: int) -> Tensor:
    path = folder / name
    if not path.is_file():
        raise MotionkitError(
            f"{folder} has no statistics: {name} is missing.",
            why="without those of its training a model makes noise.",
            fix=_AGAIN,
        )
    return require_array(torch.from_numpy(weights.read_numbers(path)).float(), (size,), str(path), _AGAIN)


def export_checkpoint(checkpoint: Checkpoint, out: Path, *, overwrite: bool = False) -> Path:
    """Write a tuned model in the layout of the checkpoint that it began as, with adapters merged.

    Config and statistics are copied byte for byte; tensors have the names and number types of the original file, so
    that those which were not trained have its bits.

    Args:
        checkpoint: The model.
        out: Folder, made if it is missing; export.json in it lists the files.
        overwrite: Replace the files of an earlier export.

    Returns:
        The folder.
    """
    place = OutputFolder(out, "export.json", "motionkit-export", overwrite=overwrite)
    place.claim()
    path = Path(checkpoint.record.file)
    tuned = stock_keys(merged_state(checkpoint.network))
    tensors = {
        name: tuned[name.removeprefix(_PREFIX)].detach().cpu().to(getattr(torch, kind)).contiguous()
        for name, kind in checkpoint.record.types.items()
    }
    with place.beside() as part:
        copy_beside(checkpoint, part)
        if path.suffix == ".safetensors":
            save_file(tensors, part / path.name, metadata={"format": "pt"})
        else:
            torch.save({"state_dict": tensors}, part / path.name)
    place.settle(part, {"schema": 1, "to": "kimodo", "checkpoint": str(checkpoint.folder)})
    return out


def check(opened: Checkpoint) -> tuple[dict[str, str], bool]:
    """Return what was found in a model, by topic, and whether a prediction and its gradients are finite.

    The prediction is of noise at the last timestep, without a text. The gradients are those of the mean square of the
    body's features by that noise: with the way through the root that the body is given, and with it cut.
    """
    network, types, scales = opened.network, opened.record.types.values(), opened.normalizer.std
    shape = network.shape
    x = torch.randn(1, _FRAMES, shape.features, generator=torch.Generator().manual_seed(0), requires_grad=True)
    last, lengths = torch.tensor([STEPS - 1]), torch.tensor([_FRAMES])
    text = Conditions(torch.zeros(1, 1, shape.text_width), torch.zeros(1, 1, dtype=torch.bool), torch.zeros(1))
    norms, deviation = {}, math.nan
    for through in (False, True):
        network.root_gradient = through
        made = Guidance(text=1.0).predict(network, x, last, lengths, text)
        (gradient,) = torch.autograd.grad(made[..., ROOT:].square().mean(), x)
        norms[through], deviation = float(gradient.norm()), float(made.detach().std())
    finite = all(map(math.isfinite, (*norms.values(), deviation)))
    count = sum(parameter.numel() for parameter in network.parameters())
    return {
        "policy": f"of {opened.representation.name}, {len(types)} tensors with their names, {count:,} values, "
        f"{', '.join(sorted(set(types)))}",
        "network": f"two stages of {shape.layers} layers, {shape.latent} wide, {shape.heads} heads; "
        f"{shape.text_slots} text slots of {shape.text_width}",
        "statistics": f"{shape.features} features at {opened.representation.fps:g} frames per second, scales "
        f"{float(scales.min()):.2g} to {float(scales.max()):.2g}",
        "prediction": f"{_FRAMES} frames from noise, {'finite' if finite else 'not finite'}, standard deviation "
        f"{deviation:.2f}; that of motions is 1",
        "gradient": f"of the body by the noise {norms[False]:.3g} with the way through the root cut, as in training; "
        f"{norms[True]:.3g} with it",
    }, finite
