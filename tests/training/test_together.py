"""What a launcher says, what it may not say, and what processes decide alike."""

from __future__ import annotations

import math
import threading
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from motionkit.errors import MotionkitError
from motionkit.runs import FollowingRun, Run
from motionkit.training.launch import Launch, launch_of, require_launch
from motionkit.training.learner import Learner, constant_rate
from motionkit.training.settings import OptimSettings
from motionkit.training.together import own_device
from motionkit.training.world import (
    OneProcess,
    asked_to_stop,
    joined,
    joined_all,
    of_main,
    open_together,
    rows_of,
    share_of,
)

from ..made.threads import Meeting, Member, in_threads

TORCHRUN = {
    "RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "a", "MASTER_PORT": "1",
}  # fmt: skip


def test_a_launch_is_read_from_the_environment() -> None:
    assert launch_of(TORCHRUN) == Launch(3, 4, 1, 2)
    assert launch_of(TORCHRUN).quiet
    require_launch(TORCHRUN)


@pytest.mark.parametrize("environ", [{}, {"WORLD_SIZE": "1", "RANK": "0", "LOCAL_RANK": "0"}, {"RANK": "2"}])
def test_a_process_alone_is_alone(environ: dict[str, str]) -> None:
    require_launch(environ)
    assert launch_of(environ) == Launch()
    assert not launch_of(environ).quiet


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"RANK": ""}, "RANK"),
        ({"LOCAL_RANK": "", "MASTER_PORT": ""}, "LOCAL_RANK, MASTER_PORT"),
        ({"RANK": "4"}, "not a number below it"),
        ({"ACCELERATE_USE_FSDP": "true"}, "FSDP"),
    ],
)
def test_a_launch_that_means_something_else_is_refused(changed: dict[str, str], said: str) -> None:
    with pytest.raises(MotionkitError, match=said) as caught:
        require_launch(TORCHRUN | changed)
    assert caught.value.code == 2
    assert "torchrun" in caught.value.fix


def test_each_process_has_a_device_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    launch = launch_of(TORCHRUN)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert own_device("auto", launch) == own_device("cpu", launch) == "cpu"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert own_device("auto", launch) == own_device("cuda", launch) == "cuda:1"
    for count, device, word in ((2, "cuda:1", "one device for 4"), (1, "auto", "1 CUDA devices")):
        monkeypatch.setattr(torch.cuda, "device_count", lambda count=count: count)
        with pytest.raises(MotionkitError, match=word):
            own_device(device, launch)


def test_what_the_main_process_says_counts() -> None:
    said = [{"a": 0.1 + 0.2, "b": [math.inf, "é"]}, {"a": 7.0, "b": ["a longer text than the other"]}]
    assert in_threads(2, lambda world: of_main(said[world.rank], world)) == [said[0], said[0]]
    assert of_main(said[1], OneProcess()) is said[1]


def test_shares_of_a_batch_are_equal_or_refused() -> None:
    members = [Meeting(3).world(rank) for rank in range(3)]
    rows = list(range(6))
    assert [rows[share_of(6, one, what="rows", flag="--batch-size")] for one in members] == [[0, 1], [2, 3], [4, 5]]
    assert [rows_of(torch.zeros(2, 5), one) for one in members][2] == (6, slice(4, 6))
    with pytest.raises(MotionkitError, match="4 rows"):
        share_of(4, members[0], what="rows", flag="--batch-size")


def test_shares_of_a_loss_that_compares_rows_add_up_to_it_and_to_its_gradient() -> None:
    torch.manual_seed(0)
    start, rows = torch.randn(4, 3, dtype=torch.float64), torch.randn(6, 4, dtype=torch.float64)

    def work(world: Member | OneProcess) -> tuple[Tensor, Tensor]:
        weight = start.clone().requires_grad_()
        own = share_of(6, world, what="rows", flag="--batch-size")
        made = joined(rows[own] @ weight, world)
        loss = (made @ made.T).softmax(-1).diagonal().log().mean() / world.size
        loss.backward()
        assert weight.grad is not None
        return loss.detach(), weight.grad

    found = in_threads(3, work)
    loss, gradient = work(OneProcess())
    assert torch.allclose(sum(one[0] for one in found), loss, rtol=1e-12)
    assert torch.allclose(sum(one[1] for one in found), gradient, rtol=1e-12)
    assert not torch.allclose(3 * found[0][1], gradient)  # each has its own rows' part


def test_several_tensors_are_joined_in_one_exchange_with_the_same_bits() -> None:
    torch.manual_seed(0)
    shapes = (4,), (3,), (5, 6)
    made = [[torch.randn(2, *shape) for shape in shapes] for _ in range(3)]
    weights = [torch.randn(6, *shape) for shape in shapes]

    def work(world: Member, *, at_once: bool) -> tuple[list[Tensor], list[Tensor | None]]:
        leaves = [part.clone().requires_grad_() for part in made[world.rank]]
        parts = joined_all(leaves, world) if at_once else [joined(part, world) for part in leaves]
        torch.stack(
            [(part.square() * weight).mean() for part, weight in zip(parts, weights, strict=True)]
        ).sum().backward()
        return parts, [leaf.grad for leaf in leaves]

    found, apart = (in_threads(3, partial(work, at_once=at_once)) for at_once in (True, False))
    for mine, theirs in zip(found, apart, strict=True):
        for one, other in zip([*mine[0], *mine[1]], [*theirs[0], *theirs[1]], strict=True):
            assert one.shape == other.shape
            assert torch.equal(one, other)
    alone = joined_all(made[0], OneProcess())
    assert all(one is other for one, other in zip(alone, made[0], strict=True))


class Model:
    def __init__(self) -> None:
        self.network = nn.ModuleDict({name: nn.Linear(2, 1, bias=False) for name in ("a", "b", "c")})
        for place, parameter in enumerate(self.network.parameters()):
            nn.init.constant_(parameter, float(place))

    def tensors(self) -> dict[str, Tensor]:
        return dict(self.network.state_dict())

    def load_tensors(self, tensors: object) -> None: ...


def test_gradients_add_up_where_one_process_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parameter a has a gradient in one process, b in both, c in none; exchanged a few numbers at a time."""
    monkeypatch.setattr("motionkit.training.learner._BUCKET", 3)

    def work(world: Member) -> dict[str, Tensor | None]:
        model = Model()
        learner = Learner(model, OptimSettings(grad_clip=0), constant_rate(0.1, 0), world=world)
        x = torch.tensor([1.0, 2.0])
        loss = model.network["b"](x).sum()
        if world.rank == 1:
            loss = loss + 3 * model.network["a"](x).sum()
        loss.backward()
        metrics = learner.descend(0)
        assert metrics["grad/norm"] == pytest.approx(math.sqrt(9 * 5 + 4 * 5))
        return {name: parameter.grad for name, parameter in model.network.named_parameters()}

    for found in in_threads(2, work):
        assert isinstance(found, dict)
        assert found["a.weight"].tolist() == [[3.0, 6.0]]
        assert found["b.weight"].tolist() == [[2.0, 4.0]]
        assert found["c.weight"] is None


class Counting:
    """A world that counts its sums."""

    def __init__(self, world: Member) -> None:
        self.world, self.rank, self.size, self.main, self.sums = world, world.rank, world.size, world.main, 0

    def sum(self, tensor: Tensor) -> Tensor:
        self.sums += 1
        return self.world.sum(tensor)

    def gather(self, tensor: Tensor) -> Tensor:
        return self.world.gather(tensor)


def test_a_gradient_is_one_exchange_until_other_parameters_have_one() -> None:
    """Which parameters have gradients in each of two processes, the kind of update, and how many sums it takes."""
    updates = [
        ("b", "b", True, 2), ("b", "b", True, 1), ("ab", "b", False, 2), ("b", "b", True, 1), ("b", "ab", False, 1),
        ("b", "ab", True, 2), ("", "ab", True, 1), ("", "", True, 2), ("", "", True, 1), ("c", "", False, 2),
    ]  # fmt: skip
    values = torch.randn(len(updates), 2, 3, 2, generator=torch.Generator().manual_seed(0))

    def work(member: Member) -> None:
        world, model = Counting(member), Model()
        learner = Learner(model, OptimSettings(grad_clip=0), constant_rate(0.1, 0), ema=0.5, world=world)
        for number, (*who, average, count) in enumerate(updates):
            learner.zero_grad()
            for place, name in enumerate("abc"):
                if name in who[world.rank]:
                    model.network[name].weight.grad = values[number, world.rank, place][None].clone()
            world.sums = 0
            learner.descend(number, average=average)
            assert world.sums == count, number
            for place, name in enumerate("abc"):
                grads = [values[number, rank, place][None] for rank in range(2) if name in who[rank]]
                found = model.network[name].weight.grad
                assert (found is None) == (not grads)
                assert found is None or torch.equal(found, torch.stack(grads).sum(0))

    in_threads(2, work)


def test_only_the_main_process_has_a_run_folder(tmp_path: Path) -> None:
    out = tmp_path / "run"
    alone = threading.Lock()  # threads share the handlers of logs, and one that ends closes its own

    def work(world: Member) -> tuple[bool, int]:
        run = open_together("grpo", {"run": {}}, lambda: Run.create("grpo", {}, out=out), world)
        with run:
            run.log(1, {"loss/total": 1.0})
            run.artifact("policy").write_text("weights")
            if world.rank == 1:
                assert isinstance(run, FollowingRun)
                run.save(1, {"policy": {"weight": torch.ones(2)}})
                run.signals.stop(15)
            place = run.directory
            stopped = asked_to_stop(run, world)
            alone.acquire()
        alone.release()
        assert place.exists() == world.main
        return stopped, run.exit_code

    assert in_threads(2, work) == [(True, 143), (True, 143)]
    assert {path.name for path in out.iterdir()} == {
        ".lock",
        "config.json",
        "log.txt",
        "metrics.jsonl",
        "policy",
        "run.json",
    }


def test_others_go_on_from_the_checkpoint_of_the_main_process(tmp_path: Path) -> None:
    with Run.create("grpo", {}, out=tmp_path / "run") as run:
        run.save(3, {"policy": {"weight": torch.ones(2)}}, {"cursor": 8})

    def work(world: Member) -> tuple[int, object]:
        run = open_together("grpo", {}, lambda: Run.resume(tmp_path / "run", command="grpo"), world)
        with run:
            checkpoint = run.checkpoint()
            assert checkpoint is not None
            return run.start_step, checkpoint.state["cursor"]

    assert in_threads(2, work) == [(3, 8), (3, 8)]
