"""From a command of the training guides to the motionkit command that means the same.

A guide's whole command keeps the guide's values: defaults that differ from motionkit's are written out and listed. In a
motionkit command with some old names only these are replaced.

Below are the rules of each command (`RULES`), for what the table of `motionkit_guides.table` cannot tell: options that
belong together, and defaults that differ.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from motionkit import plugins
from motionkit.config import leaves
from motionkit.documents import read_yaml
from motionkit.errors import MotionkitError
from motionkit.plugins import either
from motionkit.training.guide_yaml import reason_in
from motionkit_guides.table import Draft, guide_options, read, rename
from motionkit_success.ppo.guide import COLLECT, COLLECT_LEFT_OUT, NULL, PPO, PPO_LEFT_OUT
from motionkit_success.ppo.guide import SWITCHES as PPO_SWITCHES
from motionkit_success.train_settings import LEFT_OUT

ROOTS = {"humanml": "dataset/HumanML3D", "kit": "dataset/KIT-ML"}
"""Folders of the datasets in the guides."""

TRACKERS = {"tensorboardplatform": "tensorboard", "wandbplatform": "wandb", "clearmlplatform": "clearml"}
"""Trackers by their names in the guides, in small letters."""

_TMR_SCORE = ("--tmr_similarity_type", "--tmr_normalization", "--tmr_max_distance", "--tmr_scale")
"""Options of the guides for the score of tmr."""

_REWARDS = {"tmr": ("matching", "cosine"), "mdm": ("matching", "r_precision", "combined")}
"""Kinds of reward (``--reward_type``) by model (``--reward_model_type``)."""

_EVALUATOR = "text_mot_match/model/finest.tar"
"""File of the evaluator in the guides, below t2m or kit; its words and statistics are found from there."""

_CONFIGS = "examples/embodiment/config"
"""Folder of settings of the reward-model guide's scripts."""

_CHOICE = frozenset({"--reward_model_type", "--reward_type", "--use_dense_reward"})
"""Options that choose the reward."""

_TARGETS = "attn,ffn,text"
"""LoRA targets of the guides."""

_LORA_RATE = "1e-5"
"""Learning rate for a published Sa2VA, whose language model is trained by LoRA; the guide's log shows 9.5e-6."""


def translate(command: str, words: Sequence[str], options: Mapping[str, bool], *, script: bool = False) -> Draft:
    """Translate the words after a command; see `Draft`."""
    draft = read(command, words, options, script=script)
    apply(draft)
    rename(draft)
    draft.dropped += [f"{name}: motionkit {command} has nothing like it" for name in draft.old]
    return draft


def apply(draft: Draft) -> None:
    """Apply the rules of the command (`RULES`)."""
    for rule in RULES.get(draft.command, ()):
        rule(draft)


def _algorithm(draft: Draft) -> None:
    old = draft.old
    flow = old.pop("--grpo_type", "") == "flow_grpo" or (not draft.whole and "--noise_scale" in old)
    if not draft.whole and not flow:
        return
    draft.add("algorithm", "--algorithm", "flow-grpo" if flow else "grpo")
    if flow and (noise := old.pop("--noise_scale", "")):
        draft.add("sampler.noise_scale", "--noise-scale", noise)
    if not flow:
        _drop(draft, ("--noise_scale", "--train_timesteps", "--inference_timesteps"), "acts with flow_grpo only")
    if draft.whole:
        draft.changes.append(("algorithm", "flow_grpo" if flow else "normal_grpo", "auto: suits the rewards"))
        steps = "10 steps; 4 are trained" if flow else "5 DDIM steps; 2 are trained"
        draft.changes.append(("sampling", "train_timesteps" if flow else "all, DDPM (not kept)", steps))


def _dataset(draft: Draft) -> None:
    """Add the folder, which is implicit in the guides; a composite set is a separate dataset."""
    old = draft.old
    composite = "--use_composite_dataset" in old or "--composite_data_path" in old
    if not (draft.whole or composite):
        return
    name = old.pop("--dataset", "") or "humanml"
    root = old.pop("--data_dir", "") or ROOTS.get(name, "")
    draft.add("dataset", "--dataset", "composite" if composite else name)
    if composite:
        old.pop("--use_composite_dataset", None)
        path = old.pop("--composite_data_path", "") or "PATH"
        draft.add("dataset.path", "--dataset.path", path)
        if draft.whole and draft.command == "grpo" and path.endswith((".npy", ".json")):  # the file of one split
            draft.add("heldout.prompts", "--set", "heldout.prompts=0")
            usual = f"{_defaults()['heldout.prompts']} of val: compose --split val, and name the folder"
            draft.changes.append(("prompts to measure", "none", usual))
    if root:
        draft.add("dataset.root", "--dataset.root", root)


def _rewards(draft: Draft) -> None:
    """Combine the name of a reward, its weight and its options."""
    old = draft.old
    if not draft.whole and not _CHOICE & old.keys():
        return
    tmr = any(name.startswith("--tmr_") for name in old)
    model = old.pop("--reward_model_type", "") or ("tmr" if tmr or not draft.whole else "mdm")
    kind = old.pop("--reward_type", "") or "matching"
    dense = "--use_dense_reward" in old
    old.pop("--use_dense_reward", None)
    model = model if model in _REWARDS else "tmr"
    if kind not in _REWARDS[model]:
        draft.dropped.append(f"--reward_type {kind}: {model} has {either(_REWARDS[model])}")
        kind = "matching"
    if dense and kind in ("r_precision", "combined"):
        draft.dropped.append(f"--use_dense_reward: {kind} has no segments, {model}-dense (--reward_type matching) has")
        dense = False
    name = f"{model}-{'dense' if dense else kind.replace('_', '-')}"
    if model == "mdm" and draft.whole:
        folder = "kit" if any("KIT" in word for _, words in draft.flags for word in words) else "t2m"
        draft.add("reward.weights", "--reward.weights", f"{folder}/{_EVALUATOR}")
    weight = old.pop("--beta_s", "")
    draft.add("reward", "--reward", _weighted(name, weight or "1"))
    if not dense:
        _drop(draft, ("--alpha",), "acts with --use_dense_reward only")
    _score(draft, name, compares=kind == "matching" and model == "tmr")
    _physics(draft)


def _weighted(name: str, weight: str) -> str:
    """Return ``name=weight`` without a weight of 1; a value that is not a number is kept as it is."""
    try:
        value = float(weight)
    except ValueError:
        return f"{name}={weight}"
    return name if value == 1 else f"{name}={value:g}"


def _score(draft: Draft, name: str, *, compares: bool) -> None:
    """Keep the options of the score that have an effect; `compares`: whether the reward has them."""
    old = draft.old
    if not compares:
        unlike = old.get("--tmr_similarity_type", "cosine") != "cosine"
        _drop(draft, _TMR_SCORE, f"acts with --reward_type matching of tmr only, this is {name}" if unlike else "")
    elif old.get("--tmr_similarity_type", "cosine") == "cosine":
        _drop(draft, _TMR_SCORE[name == "tmr-matching" :], "")
    elif old.get("--tmr_normalization", "linear") == "linear":
        _drop(draft, ("--tmr_scale",), "acts with exponential and sigmoid only")
    else:
        _drop(draft, ("--tmr_max_distance",), "acts with linear only")


def _physics(draft: Draft) -> None:
    old = draft.old
    weight = old.pop("--beta_p", "") or "0.1"
    if "--use_physics_reward" not in old:
        _drop(draft, ("--lambda_skate", "--lambda_jerk"), "acts with --use_physics_reward only")
        return
    del old["--use_physics_reward"]
    draft.add("reward", "--reward", _weighted("physics", weight))
    if draft.whole:
        draft.add("reward.shape", "--reward.shape", "guide")
        draft.changes.append(("jerk in physics", "lower is better", "best at that of reference clips"))


def _sizes(draft: Draft) -> None:
    """Write out the guide's sizes and list motionkit's."""
    if not draft.whole:
        return
    old, here = draft.old, _defaults()
    for row in guide_options():
        if row.default and not any(name in old for name in row.guide):
            old[row.guide[0]] = row.default
    theirs = f"{old['--batch_size']} x {old.get('--group_size', '') or old.get('--num_generations', '')}"
    draft.changes.append(("prompts x samples", theirs, f"{here['rollout.prompts']} x {here['rollout.group_size']}"))
    draft.changes.append(("learning rate", old["--learning_rate"], f"{here['lora rate']}, or 1e-4 without LoRA"))
    if "--num_steps" not in old:
        draft.changes.append(("steps", "600000 (not kept)", here["run.num_steps"]))
    coefficient = old.get("--kl_penalty", "") or old.get("--kl_coef", "")
    kl = f"{float(here['objective.kl_coef']):g}; on another scale"
    draft.changes.append(("KL penalty", coefficient or "1 (not kept)", kl))
    draft.changes.append(("guidance", "off; 2.5 in eval", "off (--guidance-scale)"))


def _lora(draft: Draft) -> None:
    if not draft.whole:
        return
    old, here = draft.old, _defaults()
    adapters = f"LoRA, rank {here['lora.r']}, on {here['lora.targets']}"
    if "--use_lora" in old:
        del old["--use_lora"]
        draft.add("lora.enabled", "--lora")
        draft.add("lora.targets", "--lora.targets", _TARGETS)
        draft.changes.append(("trained", f"LoRA on {_TARGETS}", adapters))
        return
    _drop(draft, ("--lora_r", "--lora_alpha", "--lora_dropout"), "acts with --use_lora only")
    draft.add("lora.enabled", "--no-lora")
    draft.changes.append(("trained", "all weights", adapters))


def _tracker(draft: Draft) -> None:
    name = draft.old.get("--train_platform_type", "")
    if name.lower() == "noplatform":
        del draft.old["--train_platform_type"]
    elif name.lower() in TRACKERS:
        draft.old["--train_platform_type"] = TRACKERS[name.lower()]


def _compose(draft: Draft) -> None:
    if draft.whole:
        name = next((words[1] for key, words in draft.flags if key == "dataset"), "humanml")
        draft.add("dataset", "--dataset", name)
        draft.add("dataset.root", "--dataset.root", ROOTS.get(name, "PATH"))
        draft.add("legacy_npy", "--legacy-npy")
        draft.changes.append(("file", "composite_kK_SPLIT.npy", ".json, .npz (--legacy-npy: .npy)"))
        if [words[-1] for key, words in draft.flags if key == "split"] in ([], ["train"]):
            draft.changes.append(("for grpo", "this file", "a second file, of --split val, is measured"))


def _profile(draft: Draft) -> None:
    if "--profile" in draft.old:
        draft.changes.append(("data", "named in the config", "PATH: the folder of motions"))
    base, output = draft.old.get("--base_config", ""), draft.old.get("--output", "")
    if base and output and base != output:
        draft.old["--base_config"] = output
        draft.dropped.append(f"--base-config {base}: copy it to {output} first, --write-config adds to the file")


def _resumed(draft: Draft) -> None:
    """Replace a file by its run: motionkit resumes a run from its newest checkpoint."""
    for place, (key, words) in enumerate(draft.flags):
        folder, slash, file = words[-1].rpartition("/")
        if draft.whole and key == "resume" and file.endswith(".pt"):
            draft.flags[place] = (key, (words[0], folder if slash else "RUN"))
            draft.dropped.append(f"{file}: a run goes on after its newest checkpoint; --init acts with old weights")


def _search(draft: Draft) -> None:
    """Leave out the words that select between the commands of the guide's script."""
    _drop(draft, ("--bayes_opt", "--tune"), "")


def _evaluation(draft: Draft) -> None:
    """Add what is implicit in the guides: the test split, and an evaluator in the working folder."""
    if path := draft.old.pop("--model_path", ""):
        draft.places.append(path)
    if not draft.whole:
        return
    kit = any(words[1:] == (name,) for _, words in draft.flags for name in ("kit", ROOTS["kit"]))
    draft.add("split", "--split", "test")
    draft.add("evaluator.weights", "--evaluator", "kit" if kit else "t2m")
    draft.add("evaluator.glove", "--glove", "glove")
    draft.changes.append(("split", "test", "val"))
    draft.changes.append(("evaluator", "t2m and glove, here", "the starter's"))


def _encoder(draft: Draft) -> None:
    """Replace the guides' ``DIR/best_encoder.pt`` by the run."""
    for place, (key, words) in enumerate(draft.flags):
        if words[0] == "--encoder" and words[-1].endswith(".pt"):
            folder = words[-1].replace("\\", "/").rpartition("/")[0]
            draft.flags[place] = (key, ("--encoder", folder or "RUN"))


def _settings_file(draft: Draft) -> str:
    """Return the settings file that Hydra finds; empty if the line names none."""
    folder, name = draft.old.get("--config_path", "") or _CONFIGS, draft.old.get("--config_name", "")
    if draft.whole and not name and draft.places:
        name = draft.places[0]
    return f"{folder.rstrip('/')}/{name.removesuffix('.yaml')}.yaml" if name else ""


def _switches_in(file: str) -> tuple[bool, bool]:
    """Return ``use_reward_model`` and ``collect_data`` of a settings file; both off if it cannot be read."""
    try:
        table = read_yaml(file, dict) if file and Path(file).is_file() else {}
    except MotionkitError:
        return False, False  # the command reports the error
    reward = table.get("reward")
    values = reward if isinstance(reward, dict) else {}
    use, collect = (values.get(name.removeprefix("reward.")) is True for name in PPO_SWITCHES)
    return use, collect


def _hydra(draft: Draft, left_out: Mapping[str, str]) -> None:
    """Add the settings file that Hydra finds, and leave out keys without effect."""
    old = draft.old
    if file := _settings_file(draft):
        draft.add("config", "--config", file)
        if draft.whole and not old.get("--config_name"):
            del draft.places[0]
    for name in ("--config_path", "--config_name"):
        old.pop(name, None)
    for key in [key for key in old if reason_in(left_out, key)]:
        draft.dropped.append(f"{key}={old.pop(key)}: {reason_in(left_out, key)}")
    for key in [key for key, value in old.items() if value.lower() in ("null", "none")]:
        draft.dropped.append(f"{key}={old.pop(key)}: that is the default")


def _stage(draft: Draft) -> None:
    """Choose the command by the guide's switches, and keep its keys; ``null`` becomes 0."""
    use, collect = (draft.old.get(name, "").lower() == "true" for name in PPO_SWITCHES)
    if draft.whole and not any(name in draft.old for name in PPO_SWITCHES):
        use, collect = _switches_in(_settings_file(draft))
    if use and collect:
        raise MotionkitError(
            "use_reward_model and collect_data are both true; nothing was started.",
            why="a run either collects data for the reward, or is trained on it.",
            fix="leave one of them out.",
        )
    if use or collect:
        draft.command = "reward-collect" if collect else "ppo"
    collects = draft.command == "reward-collect"
    keys, left_out = (COLLECT, COLLECT_LEFT_OUT) if collects else (PPO, PPO_LEFT_OUT)
    kept = {key: draft.old.pop(key) for key in list(draft.old) if key in keys or key in PPO_SWITCHES}
    _hydra(draft, left_out)
    draft.old |= {key: "0" if key in NULL and value in ("null", "None") else value for key, value in kept.items()}
    _listed(draft, "reward.reward_model.image_keys")


def _classifier(draft: Draft) -> None:
    """Convert Hydra's values to motionkit's syntax."""
    old = draft.old
    _hydra(draft, LEFT_OUT)
    frozen = old.get("reward.model.freeze_encoder", "").lower()
    if frozen in ("true", "false"):
        old["reward.model.freeze_encoder"] = "auto" if frozen == "true" else "never"
    _listed(draft, "reward.model.image_keys", "reward.data.image_key")
    if place := old.get("reward.save_dir", ""):
        old["reward.save_dir"] = place.rstrip("/").removesuffix("/checkpoints")


def _listed(draft: Draft, *names: str) -> None:
    """Convert Hydra's lists, ``[a,b]``, to ``a,b``."""
    for name in names:
        if name in draft.old:
            draft.old[name] = ",".join(part.strip(" \"'") for part in draft.old[name].strip("[]").split(","))


def _self_play(draft: Draft) -> None:
    """Add the kinds of policy and data, which are implicit in the guide; its epochs are passes over the data."""
    old = draft.old
    if model := old.pop("--model_path", ""):
        draft.add("policy", "--policy", "sa2va")
        draft.add("policy.checkpoint", "--policy.checkpoint", model)
        if draft.whole:
            draft.add("policy.trust_remote_code", "--trust-remote-code")
            draft.changes.append(("code in the model's folder", "runs", "refused: read it first"))
            if "--learning_rate" not in old:
                draft.add("optim.learning_rate", "--learning-rate", _LORA_RATE)
                here = plugins.get("trainers", "sa2va-rl").options.model_fields["optim"].default.learning_rate
                draft.changes.append(("learning rate", f"about {_LORA_RATE}", f"{here:g}, for the small policy"))
    elif draft.whole:
        draft.add("policy", "--policy", "sa2va")
        draft.add("policy.checkpoint", "--policy.checkpoint", "MODEL")
        draft.add("policy.trust_remote_code", "--trust-remote-code")
        draft.changes.append(("policy", "a Sa2VA that the script names: MODEL", "a small one of its own"))
        if "--dataset_name" not in old:
            draft.changes.append(("images", "a data set that the script names: DATA", "drawn shapes"))
            old["--dataset_name"] = "DATA"
    if name := old.pop("--dataset_name", ""):
        draft.add("dataset", "--dataset", "grasp-any-region")
        draft.add("dataset.path", "--dataset.path", name)
    if epochs := old.pop("--num_epochs", ""):
        draft.add("run.epochs", "--epochs", epochs)


def _drop(draft: Draft, names: tuple[str, ...], why: str) -> None:
    """Leave out options; `why` is empty if their value has no effect."""
    for name in names:
        if name in draft.old:
            value = draft.old.pop(name)
            if why:
                draft.dropped.append(f"{name} {value}".strip() + f": {why}")


def _defaults() -> dict[str, str]:
    """Return motionkit's defaults for the algorithm `grpo`, as text by key."""
    models = plugins.get("trainers", "grpo").options, plugins.get("algorithms", "grpo").options
    defaults = {leaf.key: leaf.default_text for model in models for leaf in leaves(model)}
    return defaults | {"lora rate": f"{models[0].model_fields['optim'].default.peak(lora=True):g}"}


RULES: Mapping[str, tuple[Callable[[Draft], None], ...]] = {
    "grpo": (_algorithm, _dataset, _lora, _sizes, _rewards, _tracker),
    "compose": (_compose,),
    "profile": (_profile,),
    "tune-bayes": (_search,),
    "tune": (_search,),
    "eval text-to-motion": (_dataset, _evaluation),
    "train-mpl": (_encoder, _resumed),
    "reward-train": (_classifier,),
    "reward-collect": (_stage,),
    "ppo": (_stage,),
    "sa2va-rl": (_self_play,),
}
"""The rules of each command; the remaining options are translated by the table."""
