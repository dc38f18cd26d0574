"""What ``--algorithm auto`` resolves to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from motionkit.config import Layer, resolve_layers
from motionkit.errors import MotionkitError
from motionkit.text_to_motion.grpo.settings import GrpoSettings, decide

BLACK_BOX = "from motionkit.config import Group\nfrom motionkit.plugins import Component\n" + (
    'component = Component("Black box", Group, "still:Still")\n'
)
TEXTLESS = """
from typing import ClassVar

from motionkit.config import Group
from motionkit.plugins import Component


class Options(Group):
    reads_text: ClassVar[bool] = False


component = Component("A reward that does not read the text", Options, "still:Still")
"""
BROKEN = "raise RuntimeError('never imported for auto')\n"


@pytest.mark.parametrize(
    ("keys", "rewards", "taken"),
    [
        ((), ("tmr-dense",), "reward-gradient"),
        ((), ("tmr-dense", "physics"), "reward-gradient"),
        (("optim.learning_rate", "rollout.prompts"), ("tmr-dense",), "reward-gradient"),
        (("rollout.group_size",), ("tmr-dense",), "grpo"),
        (("objective.kl_coef",), ("tmr-dense", "./still.py:component"), "grpo"),
        ((), ("tmr-dense", "./still.py:component"), "mixed"),
        ((), ("./still.py:component", "physics", "tmr-dense"), "mixed"),
        (("rollout.group_size", "sampler.window_size"), ("tmr-dense", "./still.py:component"), "mixed"),
        ((), ("./still.py:component",), "awm"),
        (("rollout.group_size",), ("./still.py:component",), "awm"),
        (("objective.clip_range",), ("./still.py:component",), "grpo"),
        (("rollout.group_size", "objective.credit"), ("tmr-dense",), "grpo"),
        (("objective.clip_range",), ("tmr-dense",), "grpo"),
        (("sampler.noise_scale",), ("tmr-dense",), "flow-grpo"),
        (("sampler.noise_scale", "rollout.group_size"), ("tmr-dense",), "flow-grpo"),
        (("sampler.window",), ("tmr-dense",), "grpo"),
        (("objective.chain",), ("tmr-dense",), "reward-gradient"),
        (("objective.nft_beta",), ("tmr-dense",), "nft"),
        (("objective.dpo_beta", "rollout.group_size"), ("tmr-dense",), "dpo"),
        (("objective.noisiest", "objective.kl_coef"), ("tmr-dense",), "awm"),
        ((), ("tmr-dense", "nosuch"), "reward-gradient"),  # the slot of the reward says that there is none
    ],
)
def test_options_choose_before_rewards_do(
    keys: tuple[str, ...], rewards: tuple[str, ...], taken: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("still.py").write_text(BLACK_BOX)
    found, line = decide("auto", set(keys), {"reward": rewards})
    assert found == taken
    assert line.startswith(f"grpo trains with the algorithm {taken}, because ")


def test_the_line_says_what_decided() -> None:
    def line(*keys: str) -> str:
        return decide("auto", set(keys), {"reward": ("tmr-dense",)})[1]

    others = "--algorithm NAME (docs/algorithms/README.md)"
    assert line() == (
        "grpo trains with the algorithm reward-gradient, because every reward has a gradient; grpo itself and 6 "
        f"others: {others}"
    )
    assert line("rollout.group_size") == (
        f"grpo trains with the algorithm grpo, because reward-gradient has no rollout.group_size; 7 others: {others}"
    )
    assert line("objective.nft_beta").startswith(
        "grpo trains with the algorithm nft, because only it has objective.nft"
    )


def test_a_name_stays() -> None:
    assert decide("anything", {"rollout.group_size"}, {"reward": ("tmr-dense",)}) == ("anything", "")


def test_a_removed_algorithm_names_another() -> None:
    with pytest.raises(MotionkitError) as caught:
        decide("rwr", set(), {"reward": ("tmr-dense",)})
    assert caught.value.code == 2
    assert "--algorithm awm" in str(caught.value.fix)


def test_options_that_no_algorithm_has_together() -> None:
    with pytest.raises(MotionkitError, match=r"objective\.chain, rollout\.group_size"):
        decide("auto", {"objective.chain", "rollout.group_size"}, {"reward": ("tmr-dense",)})


def test_a_broken_package_of_others_is_not_looked_at(site: Any) -> None:
    site.install("odd-rule", "[motionkit.algorithms]\nodd = odd_rule:component\n", odd_rule=BROKEN)
    assert decide("auto", set(), {"reward": ("tmr-dense",)})[0] == "reward-gradient"


@pytest.mark.parametrize(
    ("given", "coefficient"),
    [
        ({"reward": "./textless.py:component", "algorithm": "grpo"}, 0.02),
        ({"reward": "./textless.py:component", "algorithm": "flow-grpo"}, 0.02),
        ({"reward": "./textless.py:component"}, 0.02),  # auto takes awm
        ({"reward": "./textless.py:component", "algorithm": "grpo", "objective": {"kl_coef": 0.0}}, 0.0),
        ({"reward": "./textless.py:component,tmr-dense=0.1", "algorithm": "grpo"}, 0.0),
        ({"reward": "physics", "algorithm": "grpo"}, 0.0),
    ],
)
def test_a_kl_where_no_reward_reads_the_text(
    given: dict[str, Any], coefficient: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("textless.py").write_text(TEXTLESS)
    resolved = resolve_layers(GrpoSettings, [Layer("command line", given | {"device": "cpu"})])
    assert resolved.settings.objective.kl_coef == coefficient
    notes = [note for note in resolved.notes if note.startswith("rewards without text")]
    assert len(notes) == (coefficient > 0)
    assert all("objective.kl_coef 0.02" in note and "--kl-coef 0" in note for note in notes)


def test_sizes_for_a_gpu_go_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("textless.py").write_text(TEXTLESS)
    monkeypatch.setattr("motionkit.text_to_motion.grpo.settings._device", lambda name: "cuda")
    given = {"reward": "./textless.py:component", "algorithm": "grpo"}
    resolved = resolve_layers(GrpoSettings, [Layer("command line", given)])
    assert (resolved.settings.objective.kl_coef, resolved.settings.rollout.group_size) == (0.02, 16)
    assert resolved.origins["objective.kl_coef"] == "preset gpu, rewards without text"
