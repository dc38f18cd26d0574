"""What no table says of a guide's command: options that only together mean something, and defaults that differ."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from motionkit import plugins
from motionkit.cli._guide import guide_options
from motionkit.cli._translate import Draft
from motionkit.config import leaves
from motionkit.documents import read_yaml
from motionkit.errors import MotionkitError
from motionkit.plugins import either
from motionkit.success.ppo.guide import COLLECT, COLLECT_LEFT_OUT, NULL, PPO, PPO_LEFT_OUT, SWITCHES
from motionkit.success.train_settings import LEFT_OUT
from motionkit.training.guide_yaml import reason_in

ROOTS = {"humanml": "dataset/HumanML3D", "kit": "dataset/KIT-ML"}
"""Where the guides expect the datasets."""

TRACKERS = {"tensorboardplatform": "tensorboard", "wandbplatform": "wandb", "clearmlplatform": "clearml"}
_TMR_SCORE = ("--tmr_similarity_type", "--tmr_normalization", "--tmr_max_distance", "--tmr_scale")
_REWARDS = {"tmr": ("matching", "cosine"), "mdm": ("matching", "r_precision", "combined")}
_EVALUATOR = "text_mot_match/model/finest.tar"
"""Where the guides expect the evaluator, below t2m or kit; its words and statistics are found from there."""

_CONFIGS = "examples/embodiment/config"
"""Where the scripts of the reward-model guide look for their settings."""

_CHOICE = frozenset({"--reward_model_type", "--reward_type", "--use_dense_reward"})
_TARGETS = "attn,ffn,text"
"""What the guides adapt by LoRA."""

_LORA_RATE = "1e-5"
"""Learning rate for a published Sa2VA, whose language model is trained by LoRA; the guide's log shows 9.5e-6."""


def apply(draft: Draft) -> None:
    """Translate what needs more than the table; see `RULES`."""
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
    """Add the folder, which the guides take for granted; a composite set is a dataset of its own."""
    old = draft.old
    composite = "--use_composite_dataset" in old or "--composite_data_path" in old
    if not (draft.whole or composite):
        return
    name = old.pop("--dataset", "") or "humanml"
    root = old.pop("--data_dir", "") or ROOTS.get(name, "")
    draft.add("dataset", "--dataset", "composite" if composite else name)
    if composite:
        old.pop("--use_composite_dataset", None)
        draft.add("dataset.path", "--dataset.path", old.pop("--composite_data_path", "") or "PATH")
    if root:
        draft.add("dataset.root", "--dataset.root", root)


def _rewards(draft: Draft) -> None:
    """Put together the name of a reward, its weight and the options that it has."""
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
    """Return ``name=weight``; a weight of 1 is left out, and what is no number is kept for the command to refuse."""
    try:
        value = float(weight)
    except ValueError:
        return f"{name}={weight}"
    return name if value == 1 else f"{name}={value:g}"


def _score(draft: Draft, name: str, *, compares: bool) -> None:
    """Keep the options of the score that act; `compares` says whether the reward has them."""
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
        draft.changes.append(("jerk in physics", "lower is better", "best at that of real clips"))


def _sizes(draft: Draft) -> None:
    """Write out the guide's sizes and say which ones are motionkit's."""
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


def _profile(draft: Draft) -> None:
    if "--profile" in draft.old:
        draft.changes.append(("data", "named in the config", "PATH: the folder of motions"))
    base, output = draft.old.get("--base_config", ""), draft.old.get("--output", "")
    if base and output and base != output:
        draft.old["--base_config"] = output
        draft.dropped.append(f"--base-config {base}: copy it to {output} first, --write-config adds to the file")


def _resumed(draft: Draft) -> None:
    """Name the run in place of one of its files: here a run goes on after its newest checkpoint."""
    for place, (key, words) in enumerate(draft.flags):
        folder, slash, file = words[-1].rpartition("/")
        if draft.whole and key == "resume" and file.endswith(".pt"):
            draft.flags[place] = (key, (words[0], folder if slash else "RUN"))
            draft.dropped.append(f"{file}: a run goes on after its newest checkpoint; --init acts with old weights")


def _search(draft: Draft) -> None:
    """Leave out the words that choose between the guide's one script and the commands here."""
    _drop(draft, ("--bayes_opt", "--tune"), "")


def _evaluation(draft: Draft) -> None:
    """Name what the guides take for granted: the test split, and an evaluator in the working folder."""
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
    """Name the run in place of the file in it: the guides' ``DIR/best_encoder.pt`` is here the run that has it best."""
    for place, (key, words) in enumerate(draft.flags):
        if words[0] == "--encoder" and words[-1].endswith(".pt"):
            folder = words[-1].replace("\\", "/").rpartition("/")[0]
            draft.flags[place] = (key, ("--encoder", folder or "RUN"))


def _settings_file(draft: Draft) -> str:
    """Return the settings file that Hydra found by itself; empty where the line names none."""
    folder, name = draft.old.get("--config_path", "") or _CONFIGS, draft.old.get("--config_name", "")
    if draft.whole and not name and draft.places:
        name = draft.places[0]
    return f"{folder.rstrip('/')}/{name.removesuffix('.yaml')}.yaml" if name else ""


def _switches_in(file: str) -> tuple[bool, bool]:
    """Return ``use_reward_model`` and ``collect_data`` of a settings file; both off where it cannot be read."""
    try:
        table = read_yaml(file, dict) if file and Path(file).is_file() else {}
    except MotionkitError:
        return False, False  # the command says what is wrong with it
    reward = table.get("reward")
    values = reward if isinstance(reward, dict) else {}
    use, collect = (values.get(name.removeprefix("reward.")) is True for name in SWITCHES)
    return use, collect


def _hydra(draft: Draft, left_out: Mapping[str, str]) -> None:
    """Name the settings file that Hydra found by itself, and leave out what does nothing here."""
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
    """Choose the command by the guide's switches, and keep what it reads; ``null`` is its 0."""
    use, collect = (draft.old.get(name, "").lower() == "true" for name in SWITCHES)
    if draft.whole and not any(name in draft.old for name in SWITCHES):
        use, collect = _switches_in(_settings_file(draft))
    if use and collect:
        raise MotionkitError(
            "use_reward_model and collect_data are both true; nothing was started.",
            why="one run either collects what the reward is trained on, or is rewarded by it.",
            fix="leave one of them out.",
        )
    if use or collect:
        draft.command = "reward-collect" if collect else "ppo"
    collects = draft.command == "reward-collect"
    keys, left_out = (COLLECT, COLLECT_LEFT_OUT) if collects else (PPO, PPO_LEFT_OUT)
    own = {key: draft.old.pop(key) for key in list(draft.old) if key in keys or key in SWITCHES}
    _hydra(draft, left_out)
    draft.old |= {key: "0" if key in NULL and value in ("null", "None") else value for key, value in own.items()}
    _listed(draft, "reward.reward_model.image_keys")


def _classifier(draft: Draft) -> None:
    """Bring Hydra's values into the form they have here."""
    old = draft.old
    _hydra(draft, LEFT_OUT)
    frozen = old.get("reward.model.freeze_encoder", "").lower()
    if frozen in ("true", "false"):
        old["reward.model.freeze_encoder"] = "auto" if frozen == "true" else "never"
    _listed(draft, "reward.model.image_keys", "reward.data.image_key")
    if place := old.get("reward.save_dir", ""):
        old["reward.save_dir"] = place.rstrip("/").removesuffix("/checkpoints")


def _listed(draft: Draft, *names: str) -> None:
    """Write Hydra's lists, ``[a,b]``, with commas alone."""
    for name in names:
        if name in draft.old:
            draft.old[name] = ",".join(part.strip(" \"'") for part in draft.old[name].strip("[]").split(","))


def _self_play(draft: Draft) -> None:
    """Name the policy and the data, which the guide has one kind of each; its epochs are passes over the data."""
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
    if name := old.pop("--dataset_name", ""):
        draft.add("dataset", "--dataset", "grasp-any-region")
        draft.add("dataset.path", "--dataset.path", name)
    if epochs := old.pop("--num_epochs", ""):
        draft.add("run.epochs", "--epochs", epochs)


def _drop(draft: Draft, names: tuple[str, ...], why: str) -> None:
    """Leave out options; `why` is empty when their value changes nothing."""
    for name in names:
        if name in draft.old:
            value = draft.old.pop(name)
            if why:
                draft.dropped.append(f"{name} {value}".strip() + f": {why}")


def _defaults() -> dict[str, str]:
    """Return motionkit's defaults for the algorithm `grpo`, as text by key."""
    models = plugins.get("trainers", "grpo").options, plugins.get("algorithms", "grpo").options
    found = {leaf.key: leaf.default_text for model in models for leaf in leaves(model)}
    return found | {"lora rate": f"{models[0].model_fields['optim'].default.lora_rate:g}"}


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
"""The rules of each command; what they leave is translated by the table."""
