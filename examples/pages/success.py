"""A success classifier: how `motionkit reward-train` learns to see whether a task is fulfilled, on a page.

    python examples/pages/success.py

A network looks at one frame of a camera and says how likely the task is fulfilled in it. `motionkit ppo` then trains a
policy on what it says (ppo.py of this folder). After each update the weights are those of `ClassifierTraining.step`, to
the bit (tests/pages).

Shapes: E copies of the environment, M frames of all episodes, H x W pixels, B frames of a batch.
"""

import numpy as np
import torch
import torch.nn.functional as F

from motionkit import load_environment
from motionkit.training.learner import cosine_rate
from motionkit_success.classification import classifier_auroc
from motionkit_success.classifier_network import SuccessNetwork, as_images
from motionkit_success.train_data import Augmentation, FrameBatches

SEED = 0
UPDATES = 100  # the command: about 300
BATCH = 128
COPIES = 64  # the command collects up to 500 episodes of each class, with a policy that is learning

# Episodes: an arm reaches for a disc. Half of the copies follow the script of the environment, half act at random.
environment = load_environment("reach", num_envs=COPIES)
(camera,) = environment.cameras
environment.reset(np.arange(COPIES), np.arange(COPIES))  # copies and their seeds; no copy begins again by itself
draw = np.random.default_rng(SEED)
scripted = np.arange(COPIES) % 2 == 0
pictures, successes = [], []
for _ in range(environment.max_steps):
    actions = np.where(scripted[:, None], environment.scripted(), draw.uniform(-1, 1, (COPIES, 2)))
    step = environment.step(actions)
    pictures.append(environment.frames()[camera])  # [E, H, W, 3] uint8, of the state after the action
    successes.append(step.success)  # [E], of that same state
frames = np.concatenate(pictures)  # [M, H, W, 3]
labels = np.concatenate(successes).astype(np.float32)  # [M]

# Episodes are split, not frames: two frames of one episode look alike. Every fourth pair of a scripted and a random one
# is held out. The command has a third part, measured once.
copy = np.tile(np.arange(COPIES), environment.max_steps)  # [M], the episode of each frame
held_out = copy // 2 % 4 == 3  # [M]
train, val = np.flatnonzero(~held_out), np.flatnonzero(held_out)

# Of each batch three quarters are no success, however rare successes are.
batches = FrameBatches(train, labels[train], BATCH, negatives=3.0, seed=SEED)
# Images are moved by up to two pixels and made darker or brighter by up to a tenth.
changed = Augmentation(shift=2, brightness=0.1, seed=SEED)

torch.manual_seed(SEED)  # of the first weights and of dropout
network = SuccessNetwork("small", environment.cameras)
adam = torch.optim.AdamW(network.parameters(), lr=2e-3, betas=(0.9, 0.999), weight_decay=1e-4)
rate = cosine_rate(2e-3, warmup=20, total=300, final=0.02)  # of the command's length

network.train()
for update in range(UPDATES):
    index = batches(update + 1)  # [B]
    images = {camera: as_images(torch.from_numpy(frames[index]))}  # [B, 3, H, W] in 0 to 1
    logits = network(changed(images, update + 1))  # [B], the log odds of success
    # Binary cross-entropy: -log p of frames with a success, -log (1 - p) of the others, with p = 1 / (1 + exp(-logit)).
    loss = F.binary_cross_entropy_with_logits(logits, torch.from_numpy(labels[index]))
    adam.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
    adam.param_groups[0]["lr"] = rate(update)
    adam.step()
    if update % 20 == 0 or update == UPDATES - 1:
        print(f"update {update}: loss {loss.item():.4f}")

# The command measures every epoch and keeps the best weights. At the end it chooses a temperature and the threshold
# from which a frame counts as a success (precision 0.95), on these episodes too, and makes nine checks on others.
network.eval()
with torch.no_grad():
    seen = network({camera: as_images(torch.from_numpy(frames[val]))})  # as many as there are
print(f"AUROC {classifier_auroc(seen, torch.from_numpy(labels[val])):.4f} on {len(val)} frames of other episodes")
