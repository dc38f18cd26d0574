"""The models that text to motion saves: policies, TMR and the evaluator."""

from __future__ import annotations

from motionkit.runs.forms import CONFIG, POLICY, POLICY_DOCUMENT, ModelForm

_GENERATE = """\
from motionkit import load_policy

motions = load_policy("FOLDER").generate(TEXT)
motions[0].save("motion.glb")
"""

MODELS = (
    ModelForm(
        "tmr",
        CONFIG,
        "a text-motion retrieval model (TMR)",
        "motionkit grpo --reward tmr-dense --reward.weights FOLDER",
        tags=("text-to-motion", "reward-model"),
        word="motionkit-tmr",
        plugin=("rewards", "tmr-dense"),
        called="a TMR",
        described="TMR",
        protocol="retrieval",
        blind="Not measured here; `motionkit eval sensitivity --reward tmr-dense --reward.weights FOLDER` does.",
    ),
    ModelForm(
        "evaluator",
        CONFIG,
        "a text-to-motion evaluator",
        "motionkit eval text-to-motion --evaluator FOLDER",
        tags=("text-to-motion", "evaluation"),
        word="motionkit-t2m-evaluator",
        plugin=("rewards", "mdm-matching"),
        called="a text-to-motion evaluator",
        described="Guo",
        protocol="text-to-motion",
    ),
    ModelForm(
        POLICY,
        POLICY_DOCUMENT,
        "a text-to-motion diffusion policy",
        "motionkit generate TEXT motion.html --policy.checkpoint FOLDER",
        tags=("text-to-motion", "diffusion"),
        python=_GENERATE,
        word="mdm",
        plugin=("policies", "mdm"),
    ),
)
