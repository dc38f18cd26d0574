"""The released files of text-to-motion papers: paths below one folder, sizes and checksums, and a check of them."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from motionkit.page.wording import count

State = Literal["ok", "warn", "miss"]
_MDM = "save/humanml_enc_512_50steps"
_DIP = "save/DiP_no-target_10steps_context20_predict40"
_TMR = "models/tmr_humanml3d_guoh3dfeats/last_weights"
_STATS = "stats/humanml3d/guoh3dfeats"
_DATA = "dataset/HumanML3D"


@dataclass(frozen=True)
class Expected:
    """One file."""

    paths: tuple[str, ...]  # Paths below the root, of which the first that exists is used
    size: int = 0  # Published number of bytes, or 0
    sha256: str = ""  # Published checksum, or empty
    md5: str = ""  # The same


@dataclass(frozen=True)
class Release:
    """One download."""

    name: str
    use: str  # The option for it
    source: str  # Project, and the command or instructions to get it
    files: tuple[Expected, ...] = ()
    lists: tuple[tuple[str, int], ...] = ()  # Text files, with their published number of lines
    folders: tuple[tuple[str, str, int], ...] = ()  # Folders, the ending of their files, and the least number of them
    needed: bool = True  # Whether `motionkit grpo --config released.toml` needs it


def _hub(folder: str, weights: str, *, size: int, sha256: str) -> tuple[Expected, ...]:
    """Return the files of a folder for transformers."""
    vocabulary = Expected((f"{folder}/tokenizer.json", f"{folder}/vocab.json", f"{folder}/vocab.txt"))
    return Expected((f"{folder}/config.json",)), vocabulary, Expected((f"{folder}/{weights}",), size, sha256)


RELEASES = (
    Release(
        "MDM",
        "--policy.checkpoint",
        "GuyTevet/motion-diffusion-model, its README: humanml-encoder-512, 50 steps",
        (Expected((f"{_MDM}/model000750000.pt",)), Expected((f"{_MDM}/args.json",))),
    ),
    Release(
        "CLIP",
        "--policy.text-model",
        "hf download openai/clip-vit-base-patch32 --local-dir models/clip-vit-base-patch32",
        # Revision 3d74acf of the hub has its weights as pytorch_model.bin.
        _hub(
            "models/clip-vit-base-patch32",
            "pytorch_model.bin",
            size=605_247_071,
            sha256="a63082132ba4f97a80bea76823f544493bffa8082296d62d71581a4feff1576f",
        ),
    ),
    Release(
        "TMR",
        "--reward.weights, --reward.stats",
        "Mathux/TMR: bash prepare/download_pretrain_models.sh; stats/ is in the repository",
        # Checksums: public scripts that pin them; the archive's own is 7b6d8814f9c1ca972f62852ebb6c7a6f.
        (
            Expected((f"{_TMR}/text_encoder.pt",), md5="58f989c93843410a7968e0ad4ccc0040"),
            Expected((f"{_TMR}/motion_encoder.pt",), md5="14821969f7030f249be7096a281f28c6"),
            Expected((f"{_STATS}/mean.pt",), md5="3e33137ef6d80c8547077e7d99e44401"),
            Expected((f"{_STATS}/std.pt",), md5="41173c3057fb388e931f9e4ac0d0d2b9"),
        ),
    ),
    Release(
        "DistilBERT",
        "--reward.text-model",
        "hf download distilbert/distilbert-base-uncased --local-dir models/distilbert-base-uncased",
        _hub(
            "models/distilbert-base-uncased",
            "model.safetensors",
            size=267_954_768,
            sha256="5e3f1108e3cb34ee048634875d8482665b65ac713291a7e32396fb18f6ff0063",
        ),
    ),
    Release(
        "HumanML3D",
        "--dataset.root",
        "EricGuo5513/HumanML3D: its notebooks make it from AMASS",
        (Expected((f"{_DATA}/Mean.npy",)), Expected((f"{_DATA}/Std.npy",))),
        ((f"{_DATA}/train.txt", 23_384), (f"{_DATA}/val.txt", 1_460), (f"{_DATA}/test.txt", 4_384)),
        ((f"{_DATA}/new_joint_vecs", ".npy", 29_228), (f"{_DATA}/texts", ".txt", 29_228)),
    ),
    Release(
        "evaluator",
        "--evaluator of motionkit eval text-to-motion",
        "EricGuo5513/text-to-motion, or GuyTevet/motion-diffusion-model: bash prepare/download_t2m_evaluators.sh",
        (
            Expected(("t2m/text_mot_match/model/finest.tar",)),
            Expected(("t2m/Comp_v6_KLD01/meta/mean.npy", "dataset/t2m_mean.npy")),
            Expected(("t2m/Comp_v6_KLD01/meta/std.npy", "dataset/t2m_std.npy")),
            Expected(("glove/our_vab_data.npy",)),
            Expected(("glove/our_vab_words.pkl",)),
            Expected(("glove/our_vab_idx.pkl",)),
        ),
        needed=False,
    ),
    Release(
        "DiP",
        "--policy.checkpoint of motionkit generate",
        "GuyTevet/motion-diffusion-model, its README: DiP",
        (Expected((f"{_DIP}/model000600343.pt",), 232_011_477), Expected((f"{_DIP}/args.json",))),
        needed=False,
    ),
)
"""Every download, those that training needs first."""


@dataclass(frozen=True)
class Finding:
    """The result of the check of one file, list or folder."""

    release: Release
    state: State  # ``miss``: it does not exist; ``warn``: it is not as published
    path: str  # Below the root
    text: str


def found(root: Path, config: Path | None) -> tuple[list[Finding], str]:
    """Return what is found of each release below a folder, and the command that begins to train with them.

    Args:
        root: The folder.
        config: Settings file that names it; None for the one of the examples.
    """
    settings = str(config or "examples/03-text-to-motion-grpo/released.toml")
    return list(look(root)), shlex.join(["motionkit", "grpo", "--config", settings, "--dry-run"])


def look(root: Path) -> Iterator[Finding]:
    """Check the files of each release below a folder; checksums are computed if one is published."""
    for release in RELEASES:
        for file in release.files:
            yield _file(root, release, file)
        for path, lines in release.lists:
            yield _lines(root, release, path, lines)
        for path, ending, least in release.folders:
            yield _folder(root, release, path, ending, least)


def _file(root: Path, release: Release, file: Expected) -> Finding:
    path = next((path for path in file.paths if (root / path).is_file()), "")
    if not path:
        alternatives = f" (or {', '.join(file.paths[1:])})" if len(file.paths) > 1 else ""
        return Finding(release, "miss", file.paths[0], f"is not there{alternatives}")
    try:
        size = (root / path).stat().st_size
        if file.size and size != file.size:
            text = f"has {size:,} bytes, published are {file.size:,}: cut short, or another file"
            return Finding(release, "warn", path, text)
        for name, wanted in (("sha256", file.sha256), ("md5", file.md5)):
            if wanted and _digest(root / path, name) != wanted:
                text = f"{_bytes(size)}, its {name} is not the published {wanted[:8]}..."
                return Finding(release, "warn", path, text)
    except OSError as error:
        return Finding(release, "warn", path, f"cannot be read: {error.strerror or error}")
    known = "sha256" if file.sha256 else "md5" if file.md5 else ""
    return Finding(release, "ok", path, f"{_bytes(size)}{f', {known} as published' if known else ''}")


def _lines(root: Path, release: Release, path: str, wanted: int) -> Finding:
    try:
        with (root / path).open("rb") as file:
            lines = sum(1 for line in file if line.strip())
    except OSError:
        return Finding(release, "miss", path, "is not there")
    if lines != wanted:
        return Finding(release, "warn", path, f"lists {count(lines, 'clip')}, the published split {wanted:,}")
    return Finding(release, "ok", path, count(lines, "clip"))


def _folder(root: Path, release: Release, path: str, ending: str, least: int) -> Finding:
    try:
        files = sum(1 for entry in (root / path).iterdir() if entry.name.endswith(ending))
    except OSError:
        return Finding(release, "miss", path, "is not there")
    if files < least:
        return Finding(release, "warn", path, f"{count(files, 'file')}, the splits name {least:,}")
    return Finding(release, "ok", path, count(files, "file"))


def _digest(path: Path, name: str) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, name).hexdigest()


def _bytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB" if size >= 1e5 else f"{size:,} bytes"
