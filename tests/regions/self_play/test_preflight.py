"""The checks before a run pass on what can be learned from, and each fails on its own fault."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from typer.testing import CliRunner

from motionkit.cli import get_app
from motionkit.contracts.policy import WordScores
from motionkit.regions.self_play.settings import Sa2vaRlSettings
from motionkit.regions.self_play.train import Sa2vaRl
from motionkit.training.base import Checked


def prepared(**changes: Any) -> Sa2vaRl:
    base = {"rollout": {"batch_size": 2, "group_size": 4}, "threads": 1, "check": True}
    trainer = Sa2vaRl(Sa2vaRlSettings.model_validate({**base, **changes}))
    trainer.prepare()
    return trainer


def found(trainer: Sa2vaRl) -> dict[str, Checked]:
    return {one.name: one for one in trainer.check()}


def failed(trainer: Sa2vaRl) -> list[str]:
    return [name for name, one in found(trainer).items() if not one.ok]


def test_all_hold_for_the_built_in_policy_and_nothing_of_it_changes() -> None:
    trainer = prepared()
    before = {name: one.clone() for name, one in trainer.policy.tensors().items()}
    assert failed(trainer) == []
    assert "mask decoder" in found(trainer)["trained parts"].said
    assert all(torch.equal(one, before[name]) for name, one in trainer.policy.tensors().items())
    assert all(parameter.grad is None for parameter in trainer.policy.network.parameters())


def test_pixels_reach_the_mask_decoder() -> None:
    said = found(prepared(loop2={"name": "caption-to-mask", "action": "bernoulli"}))
    assert "mask decoder" in said["gradient of loop2"].said
    assert said["trained parts"].said == "each is reached by a loop"


def _ignores_masks(trainer: Sa2vaRl, plain: Callable[..., WordScores]) -> Callable[..., WordScores]:
    return lambda seen, masks, ids, **more: plain(seen, torch.ones_like(masks), ids, **more)


def _warmer(trainer: Sa2vaRl, plain: Callable[..., WordScores]) -> Callable[..., WordScores]:
    return lambda seen, masks, ids, temperature=1.0, **more: plain(seen, masks, ids, temperature=3.0, **more)


def _without_graph(trainer: Sa2vaRl, plain: Callable[..., WordScores]) -> Callable[..., WordScores]:
    fcs = trainer.policy.network.get_submodule("text_hidden_fcs")

    def scores(*given: Any, **more: Any) -> WordScores:
        one = plain(*given, **more)
        joined: Tensor = one.log_prob.detach() + 0 * one.log_prob + sum(p.sum() for p in fcs.parameters())
        return WordScores(joined, one.entropy, one.mask, one.whole)

    return scores


@pytest.mark.parametrize(
    ("fault", "check"),
    [(_ignores_masks, "mask prompts are read"), (_warmer, "log-probabilities"), (_without_graph, "gradient of loop1")],
)
def test_a_fault_of_the_policy_is_found(fault: Any, check: str, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = prepared()
    monkeypatch.setattr(trainer.policy, "score_words", fault(trainer, trainer.policy.score_words))
    assert check in failed(trainer)


def test_rewards_that_are_all_alike_fail() -> None:
    trainer = prepared()
    total = trainer.rewards["loop2"]
    trainer.rewards["loop2"] = lambda made: _flat(total(made))  # type: ignore[assignment]
    assert failed(trainer) == ["loop2 has something to learn from"]


def _flat(scores: Any) -> Any:
    return type(scores)(**{**vars(scores), "total": torch.zeros_like(scores.total)})


def test_the_command_prints_a_line_for_each_and_ends_with_1_where_one_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    line = ["sa2va-rl", "--check", "--batch-size", "2", "--group-size", "2"]
    run = CliRunner()
    done = run.invoke(get_app(), line)
    assert done.exit_code == 0, done.stderr
    assert done.stdout.count("ok    ") == 11
    monkeypatch.setattr(Sa2vaRl, "check", lambda self: iter([Checked("a", True, "x"), Checked("b", False, "y")]))
    done = run.invoke(get_app(), line)
    assert (done.exit_code, done.stdout) == (1, "ok    a: x\nfails b: y\n")
    assert "1 of 2 checks failed: b." in done.stderr
    document = json.loads(run.invoke(get_app(), [*line, "--json"]).stdout)
    assert document["checks"] == [{"name": "a", "ok": True, "said": "x"}, {"name": "b", "ok": False, "said": "y"}]
    assert document["error"]["code"] == 1
