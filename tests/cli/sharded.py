"""Run by `test_sharding` in each of two processes: sharded weights beside whole ones. A failed check ends with a 1.

The environment variable ``SA2VA`` names the folder of a small Sa2VA.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import peft
import pytest
import torch
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard

from motionkit.nn import adapters_off
from motionkit.nn.sharding import gathered, is_sharded, local, shard
from motionkit.training.launch import launch_of
from motionkit.training.learner import Best, Learner, constant_rate
from motionkit.training.settings import OptimSettings
from motionkit.training.steps import Kept, Parts, collect, restore
from motionkit.training.together import join
from motionkit.training.world import World
from motionkit_regions.sa2va import Sa2vaOptions
from motionkit_regions.sa2va.open import open_sa2va
from motionkit_regions.sa2va.policy import Sa2vaPolicy
from motionkit_regions.sa2va.sizes import dims_of, kept_of, parameters

CPU = torch.device("cpu")
CLOSE = 1e-6


class Network(nn.Module):
    """Layers of odd sizes, one row and frozen weights among them, and a trained parameter that is in none."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second, self.last = nn.Linear(4, 7), nn.Linear(7, 3, bias=False), nn.Linear(3, 1)
        self.scale = nn.Parameter(torch.ones(3))
        peft.inject_adapter_in_model(peft.LoraConfig(r=3, target_modules=["second"], init_lora_weights=False), self)

    def forward(self, rows: Tensor) -> Tensor:
        hidden: Tensor = self.last(self.second(self.first(rows).tanh()) * self.scale)
        return hidden


class Model:
    def __init__(self, world: World | None = None) -> None:
        self.network = Network()
        if world is not None:
            shard(self.network, [self.network.first, self.network.second, self.network.last], CPU)

    def tensors(self) -> dict[str, Tensor]:
        return self.network.state_dict()

    def load_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        self.network.load_state_dict(dict(tensors))

    def draw(self, rows: Tensor) -> Tensor:
        """Call the parts, and never the network."""
        network = self.network
        drawn: Tensor = network.last(network.second(network.first(rows).tanh()) * network.scale)
        return drawn


def learner_of(model: Model, world: World | None = None) -> Learner:
    named = [(name, one) for name, one in model.network.named_parameters() if "base_layer" not in name]
    optim = OptimSettings(learning_rate=0.1, grad_clip=0.05, weight_decay=0.1)
    return Learner(model, optim, constant_rate(0.1, 0), ema=0.5, world=world, trained=named)


def update(learner: Learner, number: int, world: World | None = None) -> dict[str, float]:
    rows = torch.randn(6, 4, generator=torch.Generator().manual_seed(number))
    # Processes have shares of other sizes; each takes its part of the same sum.
    mine = slice(None) if world is None else slice(0, 2) if world.rank == 0 else slice(2, 6)
    learner.zero_grad()
    assert isinstance(learner.model, Model)
    learner.model.draw(rows[mine]).square().sum().backward()
    return learner.descend(number)


def held(parts: Parts) -> dict[str, dict[str, Tensor]]:
    return {name: gathered(tensors) for name, tensors in collect(parts)[0].items()}


def gap(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> float:
    assert one.keys() == other.keys()
    return max(
        float((value.detach().double() - other[name].detach().double()).abs().max()) for name, value in one.items()
    )


class Saved:
    """A checkpoint in memory."""

    path = "memory"

    def __init__(self, parts: Parts) -> None:
        self.tensors, self.state = held(parts), collect(parts)[1]


def the_first_call_may_be_of_a_part() -> None:
    """FSDP alone takes the part for the root, and refuses the network that holds it."""
    plain = Network()
    for module in (plain.first, plain.second, plain.last, plain):
        fully_shard(module)
    plain.first(torch.ones(1, 4))
    with pytest.raises(RuntimeError, match="root module first"):
        plain(torch.ones(1, 4))


def a_sharded_model_learns_as_a_whole_one(world: World) -> None:
    whole, parts = Model(), Model(world)
    one, two = learner_of(whole), learner_of(parts, world)
    rows = torch.randn(5, 4)
    assert gap({"": parts.draw(rows)}, {"": whole.draw(rows)}) == 0
    assert gap({"": parts.network(rows)}, {"": whole.network(rows)}) == 0
    sharded = {name for name, tensor in parts.tensors().items() if is_sharded(tensor)}
    assert len(sharded) == len(parts.tensors()) - 1
    for number in range(4):
        mine, theirs = update(one, number), update(two, number, world)
        assert theirs["grad/norm"] > 0.05  # it is clipped
        assert abs(mine["grad/norm"] / theirs["grad/norm"] - 1) < CLOSE
    for name, tensors in held(one.parts()).items():
        assert gap(tensors, held(two.parts())[name]) < CLOSE, name
    assert gap(whole.tensors(), Model().tensors()) > 0.1  # far beyond that
    live, drawn = gathered(parts.tensors()), parts.draw(rows)
    with one.averaged(), two.averaged():
        assert gap({"": parts.draw(rows)}, {"": whole.draw(rows)}) < CLOSE
        assert gap({"": parts.draw(rows)}, {"": drawn}) > 0.01
    assert gap(gathered(parts.tensors()), live) == 0
    with adapters_off(whole.network), adapters_off(parts.network):
        assert gap({"": parts.draw(rows)}, {"": whole.draw(rows)}) < CLOSE
        assert gap({"": parts.draw(rows)}, {"": drawn}) > 0.01


def a_checkpoint_is_that_of_a_whole_model(world: World) -> None:
    """Bit for bit, out of either into the other."""
    for source, target in ((None, world), (world, None), (world, world)):
        first, second = learner_of(Model(source), source), learner_of(Model(target), target)
        best = Best()
        for number in range(2):
            update(first, number, source)
            best.offer(number, number, first.model.tensors())
        saved = Saved({**first.parts(), "best": best, "kept": Kept()})
        again: Parts = {**second.parts(), "best": Best(), "kept": Kept()}
        restore(again, saved)  # type: ignore[arg-type]
        for name, tensors in held(again).items():
            assert gap(tensors, saved.tensors[name]) == 0, name
        # What follows is the same to the bit where both are sharded, and to rounding elsewhere.
        both = [held(learner.parts()) for learner in (first, second) if update(learner, 2, learner_world(learner))]
        for name, tensors in both[0].items():
            assert gap(tensors, both[1][name]) <= (0 if source is target else CLOSE), name
        first.model.load_tensors(best.tensors)
        second.model.load_tensors(saved.tensors["best"])
        for learner in (first, second):
            assert gap(gathered(learner.model.tensors()), saved.tensors["best"]) == 0


def learner_world(learner: Learner) -> World | None:
    return learner.world if learner.world.size > 1 else None


def captions_of_other_lengths_end_together(world: World) -> None:
    """Words are those of a whole model, though the captions of one process end before the other's."""
    options = Sa2vaOptions.model_validate(
        {"checkpoint": os.environ["SA2VA"], "lora_rank": 4, "max_words": 24, "rows": 2}
    )
    whole, parts = open_sa2va(options), open_sa2va(options, world=world)
    weigh(parts)
    calls = [0, 0]
    for place, policy in enumerate((whole, parts)):

        def counted(*_: object, place: int = place) -> None:
            calls[place] += 1

        policy.language.model.model.layers[0].register_forward_hook(counted)
    picture = np.random.default_rng(0).integers(0, 255, (2, 40, 40, 3), dtype=np.uint8)
    masks = torch.zeros(4, *whole.mask_size, dtype=torch.bool)
    masks[:2, 2:9, 3:12], masks[2:, :4, :5] = True, True
    # One process sees an image twice, the other two images: the projector is called as often.
    rows = torch.tensor([0, 0, 0, 0] if world.rank == 0 else [0, 0, 1, 1])
    noise = torch.rand(4, 24, generator=torch.Generator().manual_seed(world.rank))
    if world.rank == 0:
        noise[:] = 0.0  # the first token that may be sampled, which is the end
    said = [
        policy.sample_captions(policy.see(list(picture)).select(rows), masks, temperature=3.0, noise=noise)
        for policy in (whole, parts)
    ]
    assert said[0].texts == said[1].texts
    assert torch.equal(said[0].ids, said[1].ids)
    alone, shared = world.gather(torch.tensor([calls])).unbind(1)
    assert int(alone[0]) < int(alone[1]), alone  # the first process would have left the second one waiting
    assert int(shared[0]) == int(shared[1]) == int(alone[1])


def weigh(policy: Sa2vaPolicy) -> None:
    """What a process holds is what was planned; vectors of so small a network count."""
    folder = Path(os.environ["SA2VA"])
    config = json.loads((folder / "config.json").read_text())
    planned = kept_of(dims_of(config), parameters(folder, config), policy.options, half=False, shards=2)
    held = sum(4 * local(parameter).numel() for parameter in policy.network.parameters())
    assert held == pytest.approx(planned.frozen + planned.trained, rel=0.03)
    assert held < 0.9 * planned.opened


def main() -> None:
    world = join(launch_of(), "cpu")
    assert world.size == 2
    the_first_call_may_be_of_a_part()
    a_sharded_model_learns_as_a_whole_one(world)
    a_checkpoint_is_that_of_a_whole_model(world)
    captions_of_other_lengths_end_together(world)
    world.close()


if __name__ == "__main__":
    main()
