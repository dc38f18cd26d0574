"""TMR-SOMA, Kimodo's text-motion retrieval model: motionkit's TMR on other features, with a gradient to the joints.

`TrueRetrieval` tries it on the true motions of the benchmark: whether its features are those of the released weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from motionkit import weights
from motionkit.contracts.console import Console
from motionkit.contracts.protocol import Result
from motionkit.errors import MotionkitError
from motionkit.geometry import positions_from_bones, rotate_yaw
from motionkit.metrics import frechet, ranks, retrieval
from motionkit.motion import ReadOptions
from motionkit.rl import length_mask
from motionkit.text_to_motion.tmr.files import MOTION, TEXT, build_encoder, read_one
from motionkit.text_to_motion.tmr.model import TMR, Latent
from motionkit_policy_kimodo.files import FILES, RETRIEVAL, read_config, read_statistics
from motionkit_policy_kimodo.motions import read_kimodo
from motionkit_policy_kimodo.prompts import read_prompts
from motionkit_policy_kimodo.representation import KimodoRepresentation, on_floor
from motionkit_policy_kimodo.settings import RetrievalSettings
from motionkit_policy_kimodo.skeletons import as_soma30, body
from motionkit_policy_kimodo.texts import COMMAND, TextTable

SAME = 0.98
"""Texts whose scores (0 to 1) are above this count as the same in retrieval."""


@dataclass(frozen=True, eq=False)
class Retrieval:
    """TMR-SOMA, frozen, in eval mode."""

    model: TMR
    representation: KimodoRepresentation  # Of SOMA30; its features are the policy's, not those here

    def features(self, joints: Tensor, lengths: Tensor, *, canonical: bool = True) -> Tensor:
        """Return the features ``[N, T, 186]``, not normalised; differentiable but for the contacts.

        They are the root's place, the heading (cosine, sine), the other joints less the root's x and z, all velocities,
        both turned by minus the heading of their frame, and contacts.

        Args:
            joints: ``[N, T, 30 or 77, 3]`` metres of SOMA, Y up; padding may hold anything.
            lengths: ``[N]``, each at least 2.
            canonical: The motion begins at x = z = 0 with heading 0.
        """
        joints = as_soma30(joints)
        if joints.shape[-2] != len(self.representation.body):
            raise MotionkitError(
                f"TMR-SOMA reads the 30 or 77 joints of SOMA, these motions have {joints.shape[-2]}.",
                fix="use it with a model of SOMA.",
            )
        made = self.representation.body
        rest = positions_from_bones(made.offsets, made.parents).to(joints)
        joints = torch.where(length_mask(lengths, joints.shape[1])[..., None, None], joints, rest)
        velocities, contacts = self.representation.moving(joints, lengths)
        angle, root = self.representation.facing(joints), joints[..., 0, :]
        beside = joints - on_floor(root[..., None, ::2])
        turned = [rotate_yaw(part, -angle[..., None]).flatten(-2) for part in (beside[..., 1:, :], velocities)]
        if canonical:
            root = rotate_yaw(root - on_floor(root[:, :1, ::2]), -angle[:, :1])
            angle = angle - angle[:, :1]
        heading = torch.stack([angle.cos(), angle.sin()], dim=-1)
        return torch.cat([root, heading, *turned, contacts.to(root)], dim=-1)

    def latent(self, joints: Tensor, lengths: Tensor) -> Latent:
        """Return mean and log-variance of motions, ``[N, E]`` each; arguments as in `features`."""
        return self.model.encode_motion(self.features(joints, lengths), length_mask(lengths, joints.shape[1]))

    def motions(self, joints: Tensor, lengths: Tensor) -> Tensor:
        """Return unit vectors ``[N, E]`` of motions, differentiable; arguments as in `features`."""
        return F.normalize(self.latent(joints, lengths).mu, dim=-1)

    def texts(self, texts: Sequence[str]) -> Tensor:
        """Return unit vectors ``[N, E]`` of texts."""
        return F.normalize(self.model.encode_texts(texts), dim=-1)

    def file(self, path: Path) -> Tensor:
        """Return the unit vector ``[E]`` of the motion of SOMA in a Kimodo npz."""
        joints = read_kimodo(path, ReadOptions())[0].motion.positions().to(self.model.mean)
        with torch.no_grad():
            return self.motions(joints[None], torch.tensor([len(joints)], device=joints.device))[0]


def read_retrieval(source: str, texts: TextTable | None = None) -> Retrieval:
    """Open TMR-SOMA.

    Args:
        source: Its folder, or its id on the hub: ``nvidia/TMR-SOMA-RP-v1``.
        texts: Vectors of texts; None if none are encoded.
    """
    config, made = read_config(weights.located(source, files=FILES), RETRIEVAL), body("soma30")
    statistics, _ = read_statistics(config.path.parent, 6 * len(made) + 6)
    folder, heads = config.file("ckpt_folder", "last_weights"), config.size("num_heads")
    files = {name: folder / f"{name}.pt" for name in (MOTION, TEXT)}
    motion, text = (build_encoder(read_one(path, name), heads, str(path)) for name, path in files.items())
    model = TMR(motion, text, statistics.mean, statistics.std, text_model=texts, origin=str(folder))
    return Retrieval(model.eval().requires_grad_(False), KimodoRepresentation(made))


def scores(texts: Tensor, motions: Tensor) -> Tensor:
    """Return scores from 0 to 1, ``[N]``, of unit vectors ``[N, E]``: the cosine, halved, plus a half."""
    return (texts * motions).sum(-1) / 2 + 0.5


def benchmark(texts: Tensor, motions: Tensor | None, truth: Tensor | None) -> dict[str, float]:
    """Return the rows of Kimodo's benchmark, of unit vectors ``[N, E]``: recalls in percent, and Frechet distances.

    ``t2m``: the motion of each text among all motions; ``m2m``: the true motion of each motion; ``t2m_gt``: the true
    motion of each text. A candidate whose text is the same (`SAME`) counts as right. Rows of what is None are left out.
    """
    made = {"t2m": (texts, motions), "m2m": (motions, truth), "t2m_gt": (texts, truth)}
    sets = {"FID_gen_gt": (motions, truth), "FID_gt_text": (truth, texts), "FID_gen_text": (motions, texts)}
    rows = {
        f"{name}_{row.removeprefix('t2m/')}": value
        for name, (asked, among) in made.items()
        if asked is not None and among is not None
        for row, value in retrieval(asked @ among.T, sentences=texts, threshold=SAME).items()
        if row.startswith("t2m/") and row != "t2m/len"
    }
    return rows | {
        name: frechet(one, other) for name, (one, other) in sets.items() if one is not None and other is not None
    }


def places(texts: Tensor, motions: Tensor) -> Tensor:
    """Return the place ``[N]``, from 0, of the motion of each text among all; unit vectors ``[N, E]``."""
    same = texts @ texts.T > 2 * SAME - 1
    return ranks(texts @ motions.T, relevant=same | torch.eye(len(same), dtype=torch.bool, device=same.device))


class TrueRetrieval:
    """``eval kimodo-retrieval``."""

    name = "kimodo-retrieval"

    def __init__(self, settings: RetrievalSettings, *, console: Console) -> None:
        self.settings, self.console = settings, console

    def measure(self, cases: str) -> Result:
        """Look for the true motion of each text of a folder among all."""
        if self.settings.embeddings is None:
            raise MotionkitError("no text vectors are named.", fix=f"{COMMAND}, then --embeddings OUT")
        asked = [one for one in read_prompts(Path(cases)) if len(one.texts) == 1]
        found = [(one.texts[0], Path(one.extras["truth"])) for one in asked if "truth" in one.extras]
        if len(found) < 2:
            raise MotionkitError(
                f"{cases} has {len(found)} cases with a text and its true motion, gt_motion.npz.",
                fix="make them by Kimodo's create_benchmark, of BONES-SEED.",
            )
        retrieval = read_retrieval(self.settings.weights, TextTable(self.settings.embeddings))
        texts = retrieval.texts([text for text, _ in found])
        with self.console.working(len(found)) as step:
            motions = []
            for _, file in found:
                motions.append(retrieval.file(file))
                step(1)
        figures = benchmark(texts, None, torch.stack(motions))
        return Result(
            {"cases": len(found), "folder": cases},
            {f"heldout/{name}": value for name, value in figures.items()},
            closing=[f"{len(found)} cases. Published R@3: 89.1 (content), 93.9 (repetition)."],
        )
