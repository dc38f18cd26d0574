"""Readers of datasets, captions and folders of motions."""

from __future__ import annotations

import hashlib
import json
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch

from motionkit.clips.convert import load_clips, open_sources
from motionkit.clips.convert.feature_target import finish_folder, write_features
from motionkit.clips.convert.resumable import ResumableFolder, outcome_line, plan_line
from motionkit.clips.convert.targets import Piece
from motionkit.clips.walk import ClipOutcome
from motionkit.motion import HUMANML, Caption, Normalizer, joints_to_features, read_caption_table, read_captions
from motionkit.runs import write_bytes_atomic
from motionkit.text import StoredEncoder, write_table
from motionkit.text_to_motion.data.composite import KIND, CompositeOptions
from motionkit.text_to_motion.data.composite import component as composite
from motionkit.text_to_motion.data.composite_set import Arrays, pack
from motionkit.text_to_motion.data.humanml import HumanMLOptions, humanml
from motionkit.text_to_motion.tmr.model import TokenFolder
from motionkit_lerobot.layout import read_info
from motionkit_lerobot.read import _exported_manifest, _plan
from motionkit_lerobot.write import export_lerobot
from motionkit_success.episodes import Collector, open_episodes

from ..made.bodies import walker
from .mutate import Files
from .reader import Reader

_FEATURES = {f"{index:03d}": joints_to_features(walker(44 + index, index), HUMANML).float() for index in range(3)}
_CAPTIONS = (Caption("a man walks", ("a/DET", "man/NOUN", "walk/VERB")), Caption("he turns | é", (), 0.5, 2.0))


def _make_humanml(scratch: Path) -> None:
    folder = scratch / "dataset"
    folder.mkdir()
    for key, features in _FEATURES.items():
        write_features(folder, key, features, _CAPTIONS, HUMANML)
    finish_folder(folder, {"000": "train", "001": "train", "002": "val"}, HUMANML)


def _read_humanml(folder: Path) -> None:
    dataset = humanml.build(HumanMLOptions(root=folder, min_length=4, broken="skip"))
    for split in ("train", "val"):
        dataset.clips(split)
        dataset.prompts(split)
        dataset.split_ids(split)


def _make_folders(scratch: Path) -> None:
    """Make what ``convert`` is given folders of: a dataset, what ``generate`` made, and a conversion beside motions."""
    _make_humanml(scratch)
    made = scratch / "generated"
    for part in ("new_joints", "new_joint_vecs"):
        (made / part).mkdir(parents=True)
    entries = []
    for key, features in _FEATURES.items():
        np.save(made / "new_joint_vecs" / f"{key}.npy", features.numpy())
        segments = [{"text": "a walk", "start": 0, "end": 20}, {"text": "a turn", "start": 20, "end": 40}]
        entries.append({"id": key, "text": "a walk | a turn", "frames": 40, "segments": segments})
    document = {"kind": "motionkit-motions", "schema": 1, "fps": 20.0, "skeleton": "humanml", "motions": entries}
    (made / "motions.json").write_text(json.dumps(document))
    mixed = scratch / "mixed"
    (mixed / "made").mkdir(parents=True)
    np.save(mixed / "walk.npy", walker(44).numpy())
    np.save(mixed / "made" / "walk.npy", walker(44).numpy())
    record = {"kind": "motionkit-conversion", "schema": 1, "to": "npz", "clips": [], "files": ["walk.npy"]}
    (mixed / "made" / "convert.json").write_text(json.dumps(record))


def _read_folders(folder: Path) -> None:
    opened = open_sources([folder])
    for source in opened.sources:
        source.fingerprint()
        for clip in source.load() if hasattr(source, "texts_file") else load_clips(source):
            clip.with_row(None)


_PLAN = {"to": "npz", "fps": 20.0}
_RECORD = {"kind": "motionkit-conversion", "schema": 1, "to": "npz", "clips": [], "files": ["a.npz", "convert.json"]}


def _make_places(scratch: Path) -> None:
    """Make a conversion that was killed, one that is done, and one that was killed while it replaced another."""
    lines = [plan_line(_PLAN), outcome_line(ClipOutcome("a", "a.bvh", "f", (Piece("a", 9, ("a.npz",)),)))]
    for name, parts in {"killed": (".out.part",), "done": ("out",), "both": (".out.part", "out")}.items():
        for part in parts:
            folder = scratch / name / part
            folder.mkdir(parents=True)
            (folder / "a.npz").write_bytes(b"x")
            if part == "out":
                (folder / "convert.json").write_text(json.dumps(_RECORD))
            else:
                (folder / ".journal.jsonl").write_text("".join(lines))


def _read_places(folder: Path) -> None:
    """Convert into a folder with an earlier conversion; what is beside the folder stays as it is."""
    (folder / "beside").write_text("mine")
    with ResumableFolder(folder / "out", _PLAN, {"a": "f"}, overwrite=True) as place:
        if "a" not in place.done:
            write_bytes_atomic(place.path / "b.npz", b"new")
        place.finish(_RECORD)
    assert (folder / "beside").read_text() == "mine"


def _make_captions(scratch: Path) -> None:
    for name, rows in {
        "usual": [("clip", "description", "split"), ("000.bvh", "a man walks", "train"), ("001", '"a, b"', "dev")],
        "own": [
            ("file", "text", "group", "x"),
            ("a/b.npy", '"he ""turns"""', "g", ""),
            ("a/b", "é", "g", "1"),
            ("c", "", "", ""),
        ],
        "times": [("id", "text", "start", "end"), ("000", "turns", "1.5", ""), ("000", "walks", '"0,5"', "2")],
    }.items():
        (scratch / name).mkdir()
        lines = [",".join(row) for row in rows]
        (scratch / name / "captions.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _read_captions(folder: Path) -> None:
    table = read_caption_table(folder / "captions.csv")
    table.deal({"000": "x/000.bvh", "a-b": "a/b.npy", "c": "c.npy"})


def _make_texts(scratch: Path) -> None:
    (scratch / "texts").mkdir()
    lines = "a man walks#a/DET man/NOUN walk/VERB#0.0#0.0\nhe turns#he/PRON turn/VERB#0.5#2.0\n\nx##nan#nan\n"
    (scratch / "texts" / "a.txt").write_text(lines)


def _read_texts(folder: Path) -> None:
    if not (folder / "a.txt").is_file():  # whoever reads captions looks for the file first
        return
    for caption in read_captions(folder / "a.txt"):
        caption.problem(2.0)
        caption.line()


def _sample(number: int) -> dict[str, Any]:
    return {
        "id": f"s{number}", "text": "a walk, then a turn", "composite_prompt": "First a walk, finally a turn",
        "sub_prompts": ["a walk", "a turn"], "durations": [1.0, 1.2], "durations_frames": [20, 24],
        "source_ids": ["000", "001"], "source_frames": [[0, 20], [0, 24]], "outside_tmr_range": [True, True],
        "total_frames": 44,
    }  # fmt: skip


def _make_composite(scratch: Path) -> None:
    metadata = {
        "dataset_name": "humanml", "split": "train", "k_segments": 2, "target_length": 60, "tolerance": 20, "fps": 20.0,
        "num_samples": 2, "seed": 0, "crop": False, "skeleton": "humanml", "source": "x",
        "text_tower": {"name": "t", "fingerprint": "f"}, "physics_reference": [0.1, 100.0],
    }  # fmt: skip
    ours = scratch / "ours"
    ours.mkdir()
    stats = Normalizer(torch.zeros(263), torch.ones(263))
    joints = tuple(walker(45, seed).float() for seed in range(2))
    (ours / "composite_k2_train.npz").write_bytes(pack(Arrays(stats, joints, torch.eye(2).expand(2, 2, 2))))
    document = {"kind": KIND, "schema": 1, "metadata": metadata, "samples": [_sample(0), _sample(1)]}
    (ours / "composite_k2_train.json").write_text(json.dumps(document | {"arrays": {"file": "composite_k2_train.npz"}}))
    mended = _mend_composite({path.name: path.read_bytes() for path in ours.iterdir()})
    for name, content in mended.items():
        (ours / name).write_bytes(content)
    (scratch / "original").mkdir()
    kept = ("composite_prompt", "sub_prompts", "durations", "durations_frames", "source_ids", "total_frames")
    samples = [{name: _sample(number)[name] for name in kept} for number in range(2)]
    content = {"metadata": {name: metadata[name] for name in list(metadata)[:7]}, "samples": samples}
    np.save(scratch / "original" / "composite_k2_train.npy", np.array(content, dtype=object), allow_pickle=True)


def _mend_composite(files: Files) -> Files:
    """Make the hash and size in the document those of the arrays."""
    name, arrays = "composite_k2_train.json", files.get("composite_k2_train.npz")
    try:
        document = json.loads(files[name])
        digest = hashlib.sha256(arrays or b"").hexdigest()
        document["arrays"] = {"file": "composite_k2_train.npz", "sha256": digest, "size": len(arrays or b"")}
        return {**files, name: json.dumps(document).encode()}
    except (KeyError, ValueError, TypeError, RecursionError):
        return files


def _read_composite(folder: Path) -> None:
    dataset = composite.build(CompositeOptions(path=(folder,)))
    for split in dataset.splits:
        dataset.prompts(split)
        dataset.clips(split)
        dataset.similarity(split)
    _ = dataset.source_name
    if list(folder.glob("*.json")):
        dataset.physics_reference()
        _ = dataset.normalizer


def _make_tokens(scratch: Path) -> None:
    (scratch / "tokens").mkdir()
    np.save(scratch / "tokens" / "bert.npy", np.arange(24, dtype="f4").reshape(6, 4))
    np.save(scratch / "tokens" / "bert_slice.npy", np.array([[0, 2], [2, 6]]))
    (scratch / "tokens" / "bert_index.json").write_text(json.dumps({"a walk": 0, "a turn": 1}))


def _read_tokens(folder: Path) -> None:
    TokenFolder(folder).encode(["a walk", "a turn"])


def _make_stored(scratch: Path) -> None:
    (scratch / "stored").mkdir()
    write_table(scratch / "stored" / "t.safetensors", ["a walk", "é"], torch.ones(2, 4), encoder="minilm")


def _read_stored(folder: Path) -> None:
    StoredEncoder(folder / "t.safetensors").encode(["a walk", "é"])


_LEROBOT = (1,) if all(map(find_spec, ("pyarrow", "imageio_ffmpeg"))) else ()  # extra `files` of motionkit-lerobot


def _make_lerobot(scratch: Path) -> None:
    with Collector(scratch / "own", cameras={"front": (16, 16)}, columns={"action": 2, "state": 1}) as collector:
        for step in range(12):
            frames = {"front": np.full((16, 16, 3), 20 * step, np.uint8)}
            numbers = {"action": np.full(2, step, np.float32), "state": np.full(1, step, np.float32)}
            collector.add(frames, step % 4 == 3, step % 4 == 3, **numbers)
    for name, fps in (("slow", 10), ("fast", 30)):
        export_lerobot(open_episodes(scratch / "own"), scratch / name, fps=fps)
    shutil.rmtree(scratch / "own")


def _read_lerobot(folder: Path) -> None:
    """Read all but the pictures: a program of its own decodes them, and no reader here may start one."""
    _exported_manifest(folder)
    _plan(folder, read_info(folder))


READERS = (
    Reader("humanml", _make_humanml, _read_humanml),
    Reader("folders", _make_folders, _read_folders),
    Reader("conversion-folder", _make_places, _read_places),
    Reader("captions", _make_captions, _read_captions),
    Reader("texts", _make_texts, _read_texts),
    Reader("composite", _make_composite, _read_composite, mend=_mend_composite),
    Reader("token-embeddings", _make_tokens, _read_tokens),
    Reader("stored-embeddings", _make_stored, _read_stored),
    *(Reader("lerobot", _make_lerobot, _read_lerobot) for _ in _LEROBOT),
)
