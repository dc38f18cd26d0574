"""PPO: how `motionkit ppo` learns to act from rewards, on a page.

    python examples/pages/ppo.py

A rollout of many copies of an environment, advantages by the critic, and a few passes of the clipped surrogate over it
(Schulman et al. 2017). The command's PPO is that of stable-baselines3 (`Sb3Ppo.update`); its losses and weights are
those of this page, to the bit (tests/pages).

Shapes: T steps of E copies, states of 8 numbers, actions of 2; B steps of a minibatch.
"""

import numpy as np
import torch
import torch.nn.functional as F
from torch.distributions import Normal

from motionkit import load_environment
from motionkit_success.actor import Actor
from motionkit_success.actor_settings import spec_of
from motionkit_success.true_success import start_seeds

SEED = 0
UPDATES = 20  # the command: 80
COPIES, STEPS = 64, 32  # E and T
EPOCHS, BATCH = 8, 256  # passes over a rollout, steps of a minibatch
GAMMA, LAMBDA, CLIP, VALUE = 0.95, 0.95, 0.2, 0.5

environment = load_environment("reach", num_envs=COPIES)  # an arm of two joints that reaches for a disc

# Two networks of two layers: the actor gives the mean of a Gaussian over actions, the critic the value of a state.
torch.manual_seed(SEED)
actor = Actor(spec_of("mlp", 64, environment))
network = actor.network
adam = torch.optim.Adam(network.parameters(), lr=1e-3, eps=1e-5)


def policy(states):
    """The distribution of actions ``[B, 2]``; its deviation does not depend on the state."""
    mean = network.action_net(network.mlp_extractor.forward_actor(states))
    return Normal(mean, torch.ones_like(mean) * network.log_std.exp())


def value(states):
    """What the critic expects of states ``[B, 8]``: the discounted sum of rewards from there on, ``[B]``."""
    return network.value_net(network.mlp_extractor.forward_critic(states)).flatten()


environment.reset(np.arange(COPIES), start_seeds("train", SEED, 0, COPIES))  # every episode has a start of its own
begun = COPIES  # episodes
torch.manual_seed(SEED)  # of the actions
np.random.seed(SEED)  # of the minibatches

# The command watches other starts on the way, keeps the policy that does best on them, and measures 200 episodes before
# and after. An alarm compares what the classifier sees with true success.
for update in range(UPDATES):
    rows = {name: [] for name in ("states", "actions", "log_prob", "value", "reward", "over")}
    succeeded = finished = 0
    for _ in range(STEPS):
        states = torch.from_numpy(environment.states())  # [E, 8]
        with torch.no_grad():
            drawn = policy(states)
            action = drawn.rsample()  # [E, 2]
            rows["log_prob"].append(drawn.log_prob(action).sum(1))
            rows["value"].append(value(states))
        step = environment.step(action.numpy().clip(-1, 1))
        # The environment's own reward, 1 where the gripper is on the disc. The command's default is what a classifier
        # says of the picture (success.py): the same loop with another line here.
        reward = step.reward.copy()
        # An episode that was cut would have gone on: the value of its last state stands for the rest.
        for copy in np.flatnonzero(step.truncated & ~step.terminated):
            with torch.no_grad():
                reward[copy] += GAMMA * value(torch.from_numpy(environment.states()[[copy]]))
        rows["states"].append(states)
        rows["actions"].append(action)
        rows["reward"].append(torch.from_numpy(reward))
        rows["over"].append(torch.from_numpy(step.done.astype(np.float32)))
        over = np.flatnonzero(step.done)
        finished, succeeded = finished + len(over), succeeded + int(step.success[over].sum())
        environment.reset(over, start_seeds("train", SEED, begun, len(over)))
        begun += len(over)

    # Generalised advantage estimation: how much better than expected, over the steps that follow, of which each counts
    # GAMMA LAMBDA as much as the one before. delta_t = r_t + GAMMA V(s_{t+1}) - V(s_t) and
    # A_t = delta_t + GAMMA LAMBDA A_{t+1}, without what comes after the end of an episode.
    data = {name: torch.stack(values) for name, values in rows.items()}  # [T, E, ...]
    with torch.no_grad():
        after = value(torch.from_numpy(environment.states()))  # [E]
    advantage, later = torch.zeros(STEPS, COPIES), torch.zeros(COPIES)
    for t in reversed(range(STEPS)):
        goes_on = 1 - data["over"][t]
        delta = data["reward"][t] + GAMMA * after * goes_on - data["value"][t]
        advantage[t] = later = delta + GAMMA * LAMBDA * goes_on * later
        after = data["value"][t]
    data["advantage"], data["return"] = advantage, advantage + data["value"]
    flat = {name: values.transpose(0, 1).flatten(0, 1) for name, values in data.items()}  # [E T, ...], copy by copy

    policy_losses, value_losses = [], []
    for _ in range(EPOCHS):
        for index in torch.from_numpy(np.random.permutation(COPIES * STEPS)).split(BATCH):
            part = {name: values[index] for name, values in flat.items()}  # [B, ...]
            gain = (part["advantage"] - part["advantage"].mean()) / (part["advantage"].std() + 1e-8)
            drawn = policy(part["states"])
            expected = value(part["states"])
            ratio = (drawn.log_prob(part["actions"]).sum(1) - part["log_prob"]).exp()
            # No step gains by a change of its probability density by more than a fifth.
            policy_loss = -torch.min(gain * ratio, gain * ratio.clamp(1 - CLIP, 1 + CLIP)).mean()
            value_loss = F.mse_loss(part["return"], expected)
            loss = policy_loss + VALUE * value_loss  # the command has a weight for the entropy too, 0 by default
            adam.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), 0.5)
            adam.step()
            policy_losses.append(policy_loss.item())
            value_losses.append(value_loss.item())
    print(
        f"update {update}: {succeeded} of {finished} episodes end in success, "
        f"losses {np.mean(policy_losses):.4f} and {np.mean(value_losses):.4f}"
    )
