"""Commands of the training guides, and the table of them: each is answered with a motionkit command that parses."""

from __future__ import annotations

import functools
import json
import re
import shlex
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from motionkit import plugins
from motionkit.cli import _app, get_app
from motionkit.cli._app import built_in, command_names, options_of
from motionkit.config import leaves
from motionkit_guides.answers import _COMMON as SHARED
from motionkit_guides.answers import old_options
from motionkit_guides.table import guide_options, guide_scripts
from motionkit_guides.translate import translate
from tests.made.commands import assert_refused

Cli = Callable[..., Result]
Dry = Callable[[list[str]], tuple[str, Result]]
GUIDES = ("000-tmr-reward.md", "001-grpo-training.md", "002-reward-model-workflow.rst", "003-motion-predictor.md",
          "004-sa2va-rl.md")  # fmt: skip
TMR = "./model/GRPO/tmr_weights"
MODEL = "./save/official_humanml_enc_512_50steps/model000750000.pt"


def lines_of(text: str) -> list[list[str]]:
    """Return the commands of a guide's text that call one of its scripts, as words."""
    joined = re.sub(r"\\\s*\n\s*|\s*\n\s*(?=--)", " ", text)  # the guides forget some backslashes
    found = [line.strip() for line in joined.splitlines()]
    starts = ("python ", "bash ", "torchrun ")
    return [shlex.split(line) for line in found if line.startswith(starts) and "..." not in line and " -c " not in line]


def from_guides(shared: Path) -> list[list[str]]:
    return [words for name in GUIDES for words in lines_of((shared / "guides" / name).read_text(encoding="utf-8"))]


@pytest.fixture(autouse=True, scope="module")
def _built_once() -> Iterator[None]:
    """Build each command once: an old line asks for the options of a command, and there are hundreds of lines."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_app, "built_in", functools.cache(_app.built_in))
        yield


def words_of(command: str) -> list[str]:
    """Return the words that a shell makes of a command on several lines."""
    return shlex.split(command.replace("\\\n", " "))


def fix_of(done: Result) -> list[str]:
    """Return the command of an answer, as words after ``motionkit``."""
    assert done.exit_code == 2, done.stderr
    first, *words = words_of(json.loads(done.stdout)["error"]["fix"])
    assert first == "motionkit"
    return words


def parses(dry: Dry, words: list[str]) -> str:
    """Check that a command resolves its settings; return its name."""
    path, done = dry([word for word in words if word != "--json"])
    assert done.exit_code == 0, f"{shlex.join(words)}\n{done.stderr}"
    return path


def test_every_command_of_the_guides_is_translated_into_one_that_parses(
    shared: Path, cli: Cli, dry: Dry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = from_guides(shared)
    (tmp_path / "repository").mkdir()
    monkeypatch.chdir(tmp_path / "repository")  # the guides name files beside it, which are made here
    assert len(lines) > 70
    seen: dict[str, int] = {}
    for words in lines:
        error = json.loads(cli(*words, "--json").stdout)["error"]
        assert error["code"] == 2
        assert error["message"].endswith(" is a script of the training guides; nothing was started."), words
        fix = words_of(error["fix"])
        assert "left out" not in error["why"] or "acts with" in error["why"], error["why"]
        _place_files(fix)
        path = parses(dry, fix[fix.index("motionkit") + 1 :])
        seen[path] = seen.get(path, 0) + 1
        if "mdm" in words:
            kind = words[words.index("--reward_type") + 1] if "--reward_type" in words else "matching"
            kind = "dense" if "--use_dense_reward" in words else kind.replace("_", "-")
            assert f"mdm-{kind}" in fix
            assert "t2m/text_mot_match/model/finest.tar" in fix
    assert seen["motionkit grpo"] > 20
    assert set(seen) == {
        f"motionkit {name}"
        for name in (
            "grpo",
            "compose",
            "convert",
            "profile",
            "eval text-to-motion",
            "train-mpl",
            "pretrain mpl-encoder",
            "ppo",
            "reward-collect",
            "reward-train",
            "sa2va-rl",
            "tune",
            "tune-bayes",
        )
    }
    assert not Path("runs").exists()


def _place_files(words: list[str]) -> None:
    """Make the settings file and the run that a command of guides 002 and 003 names."""
    pairs = dict(pairwise(words))
    if name := pairs.get("--config"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        if name.endswith(".yaml"):
            kinds = {"reward-train": "num_epochs: 100", "ppo": "group_name: a", "reward-collect": "collect_data: true"}
            Path(name).write_text(f"reward: {{{next(kinds[word] for word in words if word in kinds)}}}")
            return
        Path(name).write_text('{"epochs": 30, "batch": 8, "out": "./models/a"} // the guide\'s')
    if name := pairs.get("--resume"):
        run = Path(name)
        run.mkdir(parents=True, exist_ok=True)
        (run / "run.json").write_text(json.dumps({"schema": 1, "command": "train-mpl", "status": "interrupted"}))
        (run / "config.json").write_text("{}")
        Path(pairs["--config"]).write_text(json.dumps({"epochs": 30, "out": name}))


def test_the_commands_of_all_scripts_are_there() -> None:
    for script in guide_scripts():
        assert built_in(script.command) is not None


def test_the_evaluation_lines_of_guide_001_are_those_of_the_table(shared: Path, cli: Cli, dry: Dry, root: Path) -> None:
    """All twelve of one model each, and the one of a composite set, as `docs/evaluation.md` shows them."""
    lines = lines_of((shared / "guides" / GUIDES[1]).read_text(encoding="utf-8"))
    asked = [words for words in lines if "eval.eval_humanml" in words]
    assert len({words[words.index("--model_path") + 1] for words in asked}) == 13
    rows = re.findall(r"^\| `(.*?)` \| `motionkit (.*?)` \|$", (root / "docs/evaluation.md").read_text(), re.M)
    table = dict(rows)
    assert len(table) == len(rows) == 13
    for words in asked:
        fix = fix_of(cli(*words, "--json"))
        model = words[words.index("--model_path") + 1]
        fix.remove("--json")
        assert shlex.join(fix) == table[model]
        assert parses(dry, fix) == "motionkit eval text-to-motion"
        assert fix.count("--dataset") == 1
    composite = table["./save/grpo_composite_k3/model_final.pt"]
    assert "--dataset composite --dataset.path dataset/HumanML3D/composite/composite_k3_test.npy" in composite
    assert "--k-segments 3" in composite


def experiment(name: str, *more: str) -> str:
    """Return one of the five experiments of guide 001, as it stands there."""
    return (
        f"--model_path {MODEL} --save_dir ./save/{name} --dataset humanml --batch_size 1 --group_size 4 "
        "--num_steps 1000 --learning_rate 1e-6 --reward_model_type tmr --reward_type matching "
        f"--tmr_text_encoder_path {TMR}/text_encoder.pt --tmr_motion_encoder_path {TMR}/motion_encoder.pt "
        f"--tmr_movement_encoder_path {TMR}/motion_decoder.pt --tmr_similarity_type cosine --tmr_normalization linear "
        f"{' '.join(more)} --beta_s 1.0 --disable_random_crop --device 3"
    )


PHYSICS = "--use_physics_reward --beta_p 0.1 --lambda_skate 1.0 --lambda_jerk 1.0"
DENSE = "--use_dense_reward --k_segments 3"
EXPERIMENTS = {
    "1": ([DENSE, "--alpha 0.0"], ["tmr-dense"], {"--reward.alpha": "0.0", "--k-segments": "3"}),
    "2": ([], ["tmr-matching"], {"--reward.similarity": "cosine"}),
    "3": ([DENSE, "--alpha 0.0", PHYSICS], ["tmr-dense", "physics=0.1"], {"--reward.alpha": "0.0"}),
    "4": ([PHYSICS], ["tmr-matching", "physics=0.1"], {"--reward.lambda-skate": "1.0", "--reward.shape": "guide"}),
    "5": ([DENSE, "--alpha 0.5", PHYSICS], ["tmr-dense", "physics=0.1"], {"--reward.alpha": "0.5"}),
}


@pytest.mark.parametrize("number", list(EXPERIMENTS))
def test_the_five_experiments(number: str, cli: Cli, dry: Dry) -> None:
    more, rewards, options = EXPERIMENTS[number]
    typed = experiment("e" + number, *more).split()
    words = fix_of(cli("grpo", *typed, "--json"))
    assert words == fix_of(cli("python", "-m", "train.train_grpo", *typed, "--json"))
    pairs = dict(zip(words, [*words[1:], ""], strict=True))
    assert [words[i + 1] for i, word in enumerate(words) if word == "--reward"] == rewards
    kept = {
        "--algorithm": "grpo", "--policy.checkpoint": MODEL, "--dataset": "humanml",
        "--dataset.root": "dataset/HumanML3D", "--batch-size": "1", "--group-size": "4", "--num-steps": "1000",
        "--learning-rate": "1e-6", "--out": f"./save/e{number}", "--device": "3",
        "--reward.text-encoder": f"{TMR}/text_encoder.pt",
    }  # fmt: skip
    assert (kept | options).items() <= pairs.items()
    assert {"--no-lora", "--no-random-crop"} <= set(words)
    assert ("--reward.similarity" in words) == (rewards[0] == "tmr-matching")
    parses(dry, words)


def test_the_answer_says_what_changes_in_value_with_motionkits_own_defaults(cli: Cli) -> None:
    why = json.loads(cli("grpo", *experiment("x").split(), "--json").stdout)["error"]["why"]
    rows = {line.split("  ")[0]: line for line in map(str.strip, why.splitlines()[1:])}
    here = {leaf.key: leaf.default for leaf in leaves(plugins.get("algorithms", "grpo").options)}
    assert f"1 x 4  {' ' * 15}"[:7] in rows["prompts x samples"]
    assert rows["prompts x samples"].endswith(f"{here['rollout.prompts']} x {here['rollout.group_size']}")
    assert f"{here['sampler.train_timesteps']} DDIM steps; {here['sampler.window_size']} are" in rows["sampling"]
    assert here["sampler.kind"] == "ddim"
    assert "0.002, or 1e-4 without LoRA" in rows["learning rate"]
    assert "all weights" in rows["trained"]
    assert "LoRA, rank 8, on attn,text" in rows["trained"]
    assert "1 (not kept)" in rows["KL penalty"]
    assert here["objective.kl_coef"] == 0.0
    assert "normal_grpo" in rows["algorithm"]
    assert max(map(len, why.splitlines())) < 80, "it fits a narrow terminal"
    assert "--guidance-scale" in rows["guidance"]
    flow = cli(
        "grpo", *experiment("x", "--grpo_type flow_grpo --noise_scale 0.5 --train_timesteps 8").split(), "--json"
    )
    there = {leaf.key: leaf.default for leaf in leaves(plugins.get("algorithms", "flow-grpo").options)}
    assert f"{there['sampler.train_timesteps']} steps; {there['sampler.window_size']} are" in flow.stdout
    assert {"flow-grpo", "--noise-scale", "0.5", "--train-timesteps", "8"} <= set(fix_of(flow))


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("--use_lora --lora_r 4 lora_alpha 16", "--lora.targets attn,ffn,text --lora.r 4 --lora.alpha 16"),
        ("--reward_model_type tmr --reward_type cosine --tmr_similarity_type euclidean", "--reward tmr-cosine"),
        ("--tmr_checkpoint_path a.pth --reward_type cosine", "--reward tmr-cosine --reward.weights a.pth"),
        ("--reward_model_type tmr --tmr_similarity_type euclidean --tmr_scale 3 --tmr_normalization sigmoid "
         "--tmr_max_distance 9", "--reward.similarity euclidean --reward.normalization sigmoid --reward.scale 3"),
        ("--reward_model_type tmr --beta_s 0.5", "--reward tmr-matching=0.5"),
        ("--reward_model_type tmr --use_dense_reward --tmr_similarity_type euclidean --tmr_max_distance 8",
         "--reward tmr-dense --reward.similarity euclidean --reward.max-distance 8"),
        ("--train_platform_type TensorboardPlatform", "--track tensorboard"),
        ("--use_composite_dataset --composite_data_path a.npy --composite_k_segments 3 --k_segments 3",
         "--dataset composite --dataset.path a.npy --k-segments 3"),
        ("--dataset kit --kl_penalty 0.5 --num_epochs 2 --kl_threshold 0.01",
         "--dataset.root dataset/KIT-ML --kl-coef 0.5 --inner-epochs 2 --set objective.kl_stop=0.01"),
    ],
)  # fmt: skip
def test_options_that_mean_something_together(typed: str, words: str, cli: Cli, dry: Dry) -> None:
    found = fix_of(cli("grpo", "--model_path", "a.pt", "--save_dir", "x", *typed.split(), "--json"))
    for flag, value in zip(words.split()[::2], words.split()[1::2], strict=True):
        assert any(found[i : i + 2] == [flag, value] for i in range(len(found))), f"{flag} {value}: {found}"
    assert found.count("--k-segments") <= 1
    assert "--tmr" not in " ".join(found)
    parses(dry, found)


@pytest.mark.parametrize(
    ("typed", "reward", "left_out"),
    [
        ("", "mdm-matching", ""),
        ("--reward_type r_precision", "mdm-r-precision", ""),
        ("--reward_type combined --beta_s 0.5", "mdm-combined=0.5", ""),
        ("--reward_type matching --use_dense_reward --alpha 0.2", "mdm-dense", ""),
        ("--reward_type r_precision --use_dense_reward", "mdm-r-precision",
         "--use_dense_reward: r_precision has no segments, mdm-dense (--reward_type matching) has"),
        ("--reward_type combined --use_dense_reward --alpha 1", "mdm-combined",
         "--alpha 1: acts with --use_dense_reward only"),
        ("--reward_type cosine", "mdm-matching", "--reward_type cosine: mdm has matching, r_precision or combined"),
        ("--reward_model_type tmr --reward_type r_precision", "tmr-matching",
         "--reward_type r_precision: tmr has matching or cosine"),
        ("--reward_type matching --tmr_scale 2 --reward_model_type mdm", "mdm-matching", ""),
    ],
)  # fmt: skip
def test_rewards_of_the_evaluator(typed: str, reward: str, left_out: str, cli: Cli, dry: Dry) -> None:
    done = cli("grpo", "--model_path", "a.pt", "--save_dir", "x", *typed.split(), "--json")
    words, why = fix_of(done), json.loads(done.stdout)["error"]["why"]
    assert words[words.index("--reward") + 1] == reward
    assert f"left out: {left_out}" in why if left_out else "left out" not in why
    assert ("t2m/text_mot_match/model/finest.tar" in words) == reward.startswith("mdm")
    assert ("--reward.alpha" in words) == ("dense" in reward)
    parses(dry, words)
    kit = fix_of(cli("grpo", "--model_path", "a.pt", "--save_dir", "x", "--dataset", "kit", *typed.split(), "--json"))
    assert ("kit/text_mot_match/model/finest.tar" in kit) == reward.startswith("mdm")


def test_new_names_beside_old_ones_are_kept_and_no_value_is_added(cli: Cli) -> None:
    done = cli("grpo", "--reward", "tmr-dense", "--model_path", "a b.pt", "--reward.alpha", 0.1, "--num_steps=7")
    assert done.exit_code == 2
    lines = done.stderr.splitlines()
    assert lines[0] == "error: motionkit grpo: no such option: --model_path, --num_steps"
    assert lines[1] == "  why  those are old names, from the training guides."
    words = shlex.split("".join(line.removesuffix("\\") for line in lines[2:]))
    assert words[1:6] == ["motionkit", "grpo", "--policy.checkpoint", "a b.pt", "--reward"]
    assert words[6:] == ["tmr-dense", "--reward.alpha", "0.1", "--num-steps", "7"]
    weight = cli("grpo", "--reward_model_type", "tmr", "--beta_s", "much")
    assert "  fix  motionkit grpo --reward tmr-matching=much\n" in weight.stderr
    one = cli("grpo", "--batch_size", 4)
    assert "  why  that is an old name, from the training guides.\n  fix  motionkit grpo --batch-size 4\n" in one.stderr
    assert "fix  motionkit grpo --policy.checkpoint PATH --seed 1\n" in cli("grpo", "--seed", 1, "--model_path").stderr


TRAIN = ("python", "training_MPL.py", "--config_json", "../config/exp.json")
CONFIGURE = ("python", "train_configurator.py", "--base-config", "a.json", "--output", "a.json")


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ((*TRAIN, "--resume", "../models/a/checkpoint_epoch_10.pt"),
         "train-mpl --resume ../models/a --config ../config/exp.json"),
        ((*TRAIN, "--encoder", "../models/b/best_encoder.pt"),
         "train-mpl --encoder ../models/b --config ../config/exp.json"),
        ((*TRAIN, "--adaptive_loss_method", "dwa", "--adaptive_loss_terms", "fk_pos,rot_local",
          "--adaptive_loss_temperature", "2.0"),
         "train-mpl --config ../config/exp.json --adaptive-loss dwa --adaptive-terms fk_pos,rot_local "
         "--adaptive-temperature 2.0"),
        (("train-mpl", "--config_json", "a.json", "--adaptive_loss_alpha", "1.5"),
         "train-mpl --config a.json --adaptive-alpha 1.5"),
    ],
)  # fmt: skip
def test_commands_of_the_predictors_guide(typed: tuple[str, ...], found: str, cli: Cli) -> None:
    words = fix_of(cli(*typed, "--json"))
    words.remove("--json")
    assert words == found.split()


@pytest.mark.parametrize(
    ("command", "typed", "found"),
    [
        ("tune-bayes", "--bayes-opt --trials 50", "tune-bayes --base a.json --write-config a.json --trials 50"),
        ("tune", "--metrics-root m --tune", "tune --base a.json --write-config a.json --metrics m"),
    ],
)
def test_the_guides_one_script_for_tuning_is_two_commands(command: str, typed: str, found: str) -> None:
    options = dict.fromkeys(("--base", "--write-config", "--trials", "--metrics"), True)
    draft = translate(command, [*CONFIGURE[2:], *typed.split()], options, script=True)
    assert sorted(draft.words()) == sorted(found.split())
    assert draft.dropped == []


def test_variables_of_the_shell_are_kept(cli: Cli) -> None:
    done = cli("CUDA_VISIBLE_DEVICES=3", "python", "convert_json_to_npz.py", "--input", "a.json", "--output", "b c.npz")
    assert done.stderr.endswith("  fix  CUDA_VISIBLE_DEVICES=3 motionkit convert a.json 'b c.npz'\n")
    assert cli("python", "other.py").stderr.startswith("error: there is no command 'motionkit python'.")


SELF_PLAY = "projects/train_sa2va_rl.py --model_path Sa2VA-4B --dataset_name data --output_dir out --num_generations 4"


@pytest.mark.parametrize("launcher", ["torchrun --nproc_per_node=8", "torchrun --nnodes 2 --nproc_per_node 4"])
def test_a_line_for_several_gpus_stays_one(launcher: str, cli: Cli, dry: Dry) -> None:
    words = words_of(json.loads(cli(*f"{launcher} {SELF_PLAY}".split(), "--json").stdout)["error"]["fix"])
    start = [*launcher.split(), "-m", "motionkit", "sa2va-rl"]
    assert words[: len(start)] == start
    assert parses(dry, words[len(start) - 1 :]) == "motionkit sa2va-rl"
    shown = cli("CUDA_VISIBLE_DEVICES=0,1", *f"{launcher} {SELF_PLAY}".split()).stderr
    assert f"fix  CUDA_VISIBLE_DEVICES=0,1 {launcher} -m motionkit sa2va-rl" in shown


def test_a_launcher_is_left_out_of_what_is_one_process(cli: Cli) -> None:
    said = cli("torchrun", "--nproc_per_node=8", *STAGE[1:]).stderr
    assert "left out: torchrun --nproc_per_node=8: motionkit ppo is one process." in said
    assert "fix  motionkit ppo" in said


def test_the_commands_that_keep_a_launcher_are_those_that_processes_share() -> None:
    trainers = {entry.name: entry for entry in plugins.available("trainers") if entry.builtin}
    commands = {script.command for script in guide_scripts() if script.command.replace(" ", ".") in trainers}
    assert len(commands) > 5
    for command in commands:
        component = plugins.get("trainers", command.replace(" ", "."))
        trainer = plugins.build("trainers", component, component.options())
        assert (trainer.world is not None) == (command in SHARED), command


def test_a_published_model_is_trusted_and_trained_at_its_own_rate(cli: Cli) -> None:
    error = json.loads(cli("torchrun", "--nproc_per_node=8", *SELF_PLAY.split(), "--json").stdout)["error"]
    words = words_of(error["fix"])
    assert "--trust-remote-code" in words
    assert words[words.index("--learning-rate") + 1] == "1e-5"
    rows = {line.split("  ")[0]: line for line in map(str.strip, error["why"].splitlines()[1:])}
    assert rows["code in the model's folder"].endswith("refused: read it first")
    here = plugins.get("trainers", "sa2va-rl").options().optim.learning_rate
    assert rows["learning rate"].endswith(f"{here:g}, for the small policy")
    typed = json.loads(cli("python", *SELF_PLAY.split(), "--learning_rate", "3e-6", "--json").stdout)["error"]
    assert "--learning-rate 3e-6" in typed["fix"]
    assert "learning rate" not in typed["why"]


def test_no_command_is_hinted_at_an_option_that_it_does_not_have(cli: Cli) -> None:
    """Every command, with every spelling of every old and new name of the table."""
    tried = 0
    for command in command_names():
        options = options_of(built_in(command))
        for row in guide_options():
            new = [word for word in row.flag.split() if word.startswith("--") and word != "--set"]
            for name in {*row.guide, *(guide.replace("_", "-") for guide in row.guide), *new} - options.keys():
                tried += 1
                hint = old_options(command, [name, "3"], options)
                assert not (hint and name in new), f"{command} {name}: a new name is not an old one"
                if hint and command != "grpo":  # which has all of its rows with some plugin, see test_examples
                    draft = translate(command, [name, "3"], options)
                    flags = {words[0] for _, words in draft.flags}
                    assert {flag for flag in flags if "." not in flag} <= options.keys(), f"{command} {name}"
    assert tried > 500


PAGE = Path("examples/03-text-to-motion-grpo/experiments.md")


def test_the_page_shows_the_five_experiments_as_they_are_translated(root: Path, cli: Cli) -> None:
    text = (root / PAGE).read_text(encoding="utf-8")
    pairs = re.findall(r"```text\n(python -m .*?)```\n\n```bash\n(motionkit grpo .*?)```", text, re.S)
    assert len(pairs) == 5
    for old, new in pairs:
        assert fix_of(cli(*words_of(old), "--json")) == [*words_of(new)[1:], "--json"]


SCRIPT = ("bash", "examples/embodiment/train_reward_model.sh", "train_reward_model")
CONFIG = "--config examples/embodiment/config/train_reward_model.yaml"


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        (SCRIPT, CONFIG),
        (("python", "examples/embodiment/main_reward.py", "--config-path", "configs/", "--config-name", "mine"),
         "--config configs/mine.yaml"),
        ((*SCRIPT, "reward.gpu_id=1", "reward.global_batch_size=64", "reward.num_epochs=50",
          "reward.save_interval=500"),
         f"{CONFIG} --epochs 50 --batch-size 64 --set checkpoint.every=500 --device 1"),
        (("reward-train", "reward.num_epochs=50"), "--epochs 50"),
        (("reward-train", "--seed", "3", "reward.model.freeze_encoder=True",
          "reward.model.pretrained_encoder_path=a.pt"), "--seed 3 --model.pretrained a.pt --model.freeze auto"),
        (("reward-train", "reward.model.image_keys=[base_camera,hand]", "reward.save_dir=out/a/checkpoints"),
         "--data.cameras base_camera,hand --out out/a"),
        (("reward-train", "reward.model.image_size=[3,64,64]"), "--set data.image_size=[3,64,64]"),
    ],
)  # fmt: skip
def test_commands_of_the_reward_guide(
    typed: tuple[str, ...], found: str, cli: Cli, dry: Dry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = fix_of(cli(*typed, "--json"))
    words.remove("--json")
    assert words[0] == "reward-train"
    assert sorted(words[1:]) == sorted(found.split())
    _place_files(words)
    assert parses(dry, words) == "motionkit reward-train"


STAGE = ("bash", "examples/embodiment/run_embodiment.sh", "maniskill_ppo_cnn")
STAGE_CONFIG = "--config examples/embodiment/config/maniskill_ppo_cnn.yaml"


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        (STAGE, f"ppo {STAGE_CONFIG}"),
        ((*STAGE, "reward.collect_data=True", "reward.use_reward_model=False"),
         f"reward-collect {STAGE_CONFIG} --set reward.collect_data=True --set reward.use_reward_model=False"),
        ((*STAGE, "reward.collect_data=True", "reward.data_collection.max_positive_trajectories=50",
          "reward.data_collection.max_negative_trajectories=null"),
         f"reward-collect {STAGE_CONFIG} --set reward.collect_data=True --max-positive-trajectories 50 "
         "--max-negative-trajectories 0"),
        ((*STAGE, "reward.use_reward_model=True", "reward.reward_model.checkpoint_path=a/step_9/checkpoint.pt",
          "reward.reward_model.reward_type=continuous", "algorithm.gamma=0.8"),
         f"ppo {STAGE_CONFIG} --set reward.use_reward_model=True --reward.checkpoint a/step_9/checkpoint.pt "
         "--reward.output continuous --set objective.gamma=0.8"),
        ((*STAGE, "reward.use_reward_model=True", "reward.reward_model.image_keys=[base_camera,hand]",
          "reward.reward_model.image_size=[3,64,64]"),
         f"ppo {STAGE_CONFIG} --set reward.use_reward_model=True --set reward.cameras=base_camera,hand "
         "--set reward.image_size=[3,64,64]"),
    ],
)  # fmt: skip
def test_stages_1_and_3_of_the_reward_guide(
    typed: tuple[str, ...], found: str, cli: Cli, dry: Dry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = fix_of(cli(*typed, "--json"))
    words.remove("--json")
    assert words[0] == found.split()[0]
    assert sorted(words) == sorted(found.split())
    _place_files(words)
    assert parses(dry, words) == f"motionkit {words[0]}"


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("reward: {collect_data: true, use_reward_model: false}", "reward-collect"),
        ("reward: {collect_data: false, use_reward_model: true}", "ppo"),
        ("reward: {group_name: a}", "ppo"),
        ("reward: [1]", "ppo"),
        ("reward: {collect_data: true", "ppo"),
    ],
)
def test_the_stage_is_read_from_the_file_that_the_line_names(
    text: str, command: str, cli: Cli, dry: Dry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = Path(STAGE_CONFIG.split()[1])
    file.parent.mkdir(parents=True)
    file.write_text(text)
    words = fix_of(cli(*STAGE, "--json"))
    words.remove("--json")
    assert words == [command, *STAGE_CONFIG.split()]
    if command == "reward-collect":
        assert parses(dry, words) == "motionkit reward-collect"
    # What is typed counts before the file.
    assert fix_of(cli(*STAGE, "reward.collect_data=True", "--json"))[0] == "reward-collect"


PAGES = ("000-tmr-reward.md", "001-grpo-training.md")
START, END = "<!-- commands of guides 000 and 001 -->\n\n", "\n<!-- end -->\n"
PLAIN = {"--model_path", "--save_dir", "--dataset", "--batch_size", "--group_size", "--num_steps", "--learning_rate",
         "--device", "--tmr_text_encoder_path", "--tmr_motion_encoder_path", "--tmr_movement_encoder_path",
         "--lambda_skate", "--lambda_jerk", "--beta_s", "--beta_p", "--disable_random_crop"}  # fmt: skip
"""What nearly all commands have, or nothing hangs on: left out of the short form."""


def shown_lines(text: str) -> list[list[str]]:
    """Return the commands of a guide's text, as words."""
    joined = re.sub(r"\\\s*\n\s*|\s*\n\s*(?=--)", " ", text)  # the guides forget some backslashes
    found = [line.strip() for line in joined.splitlines()]
    return [shlex.split(line) for line in found if line.startswith("python ") and "..." not in line]


def short(words: list[str]) -> str:
    """Return a command with the flags that tell it from the others."""
    script = words[2] if words[1] == "-m" else words[1]
    kept: list[str] = []
    keep = False
    for word in (each.strip() for each in words[3 if words[1] == "-m" else 2 :]):
        keep = word not in PLAIN if word.startswith("--") else keep
        if keep:
            kept.append(word)
    name = dict(pairwise(words)).get("--save_dir", "").rpartition("/")[2]
    return shlex.join([script.rpartition("/")[2], *kept]) + (f" ({name})" if name else "")


def translated(words: list[str]) -> str:
    """Return the motionkit line of an old command."""
    error = json.loads(CliRunner().invoke(get_app(), [*words, "--json"]).stdout)["error"]
    return shlex.join(word for word in shlex.split(error["fix"].replace("\\\n", " ")) if word != "--json")


def table(guides: Path) -> str:
    """Return the table."""
    rows, seen = [], []
    for name in PAGES:
        for words in shown_lines((guides / name).read_text(encoding="utf-8")):
            if words not in seen:
                rows.append(f"| {name[:3]} | `{short(words)}` | `{translated(words)}` |\n")
            seen.append(words)
    return "| guide | its command | motionkit |\n|---|---|---|\n" + "".join(rows)


def shown(root: Path) -> str:
    text = (root / PAGE).read_text(encoding="utf-8")
    return text[text.index(START) + len(START) : text.index(END)]


def test_the_table_has_every_command(root: Path, shared: Path, cli: Cli) -> None:
    assert shown(root) == table(shared / "guides"), f"rewrite it: python {Path(__file__).name} GUIDES"


def test_the_lines_of_the_table_parse(root: Path, dry: Dry) -> None:
    lines = re.findall(r"\| `(motionkit [^`]+)` \|\n", shown(root))
    assert len(lines) > 15
    for line in lines:
        _, done = dry(shlex.split(line)[1:])
        assert done.exit_code == 0, f"{line}\n{done.stderr}"


def test_two_stages_at_once_in_the_file_are_refused(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    file = Path(STAGE_CONFIG.split()[1])
    file.parent.mkdir(parents=True)
    file.write_text("reward: {collect_data: true, use_reward_model: true}")
    assert "both true; nothing was started" in cli(*STAGE).stderr


def test_a_word_of_hydra_that_does_nothing_here_is_named(cli: Cli) -> None:
    done = cli("reward-train", "reward.num_epochs=50", "reward.data.num_workers=4", "--json")
    error = json.loads(done.stdout)["error"]
    assert error["fix"] == "motionkit reward-train --epochs 50 --json"
    assert (
        "left out: reward.data.num_workers=4: frames are read from files that are mapped into memory." in error["why"]
    )
    assert_refused(cli("reward-train", "reward.nothing=4"), "reward.nothing=4")


if __name__ == "__main__":
    import sys

    text = PAGE.read_text(encoding="utf-8")
    head, tail = text[: text.index(START) + len(START)], text[text.index(END) :]
    PAGE.write_text(head + table(Path(sys.argv[1])) + tail, encoding="utf-8")


def test_example_7_can_be_pasted_line_by_line(shared: Path, cli: Cli) -> None:
    """The guide composes train alone, and grpo measures on val: its line says so and measures nothing."""
    lines = [line for line in from_guides(shared) if any("composite_k3_train" in word for word in line)]
    (first,) = [line for line in from_guides(shared) if "construct_composite_dataset" in " ".join(line)
                and "train" in line and line[line.index("--k_segments") + 1] == "3"][:1]  # fmt: skip
    error = json.loads(cli(*first, "--json").stdout)["error"]
    assert "a second file, of --split val, is measured" in error["why"]
    assert lines
    for line in lines:
        error = json.loads(cli(*line, "--json").stdout)["error"]
        assert "--set heldout.prompts=0" in error["fix"]
        assert "compose --split val, and name the folder" in error["why"]


def test_the_script_of_guide_004_names_a_model_and_data(cli: Cli) -> None:
    error = json.loads(cli("bash", "projects/llava_sam2/rl_train/run_rl_train.sh", "--json").stdout)["error"]
    words = words_of(error["fix"])
    assert words[:2] == ["motionkit", "sa2va-rl"]
    pairs = dict(pairwise(words))
    assert (pairs["--policy"], pairs["--policy.checkpoint"]) == ("sa2va", "MODEL")
    assert (pairs["--dataset"], pairs["--dataset.path"]) == ("grasp-any-region", "DATA")
    assert "a Sa2VA that the script names" in error["why"]


def test_old_options_without_a_command_have_their_new_names(cli: Cli) -> None:
    error = json.loads(cli("--use_lora", "--lora_r", "8", "--lora_alpha", "16", "--json").stdout)["error"]
    assert words_of(error["fix"])[:-1] == shlex.split("motionkit grpo --lora --lora.r 8 --lora.alpha 16")
    assert "no such option: --frobnicate" in cli("--frobnicate").stderr
