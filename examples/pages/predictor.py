"""The motion predictor: how `motionkit train-mpl` learns what follows a second of a motion, on a page.

    python examples/pages/predictor.py

The network has two heads. One predicts the next frame and reads its own frames: gradients flow back through a whole
free run. The other predicts all frames of a second at once. Half of the windows are told the path of the root, which
begins off the true one. After each update the weights are those of `MplTraining.step` with the command's defaults, to
the bit (tests/pages).

Shapes: N windows of P known frames and F that follow, J joints.
"""

import math

import torch

from motionkit.training.learner import cosine_rate
from motionkit_predictor.data.clips import cut_windows
from motionkit_predictor.data.files import starter_clip_set
from motionkit_predictor.evaluation.measure import Body
from motionkit_predictor.network.features import Course
from motionkit_predictor.network.predictor import roll_out
from motionkit_predictor.training.batches import Augmentation, WindowBatches
from motionkit_predictor.training.losses import (
    Frames,
    Skeleton,
    contacts,
    frame_weights,
    place,
    root,
    rot_local,
    rot_ortho,
    rot_root,
)
from motionkit_predictor.training.start import new_network

SEED = 0
UPDATES = 6  # the command: about 400, at least two epochs
BATCH = 64
EPOCHS = 2  # schedules are in epochs
FORCED = 0.0  # share of true frames in the first term; with more than two epochs it falls from 1 to 0, at 0.65 of all
SHOTS = 6  # steps of the second head for each of the first; one costs a tenth of a free run

# Angles of the joints, of the root, how far 6D numbers are from orthonormal, steps of the root and its height, its
# place where a path is told, contacts where they are known.
WEIGHTS = {rot_local: 1.0, rot_root: 0.1, rot_ortho: 0.001, root: 0.02, place: 0.2, contacts: 0.02}

clips = starter_clip_set(30.0, ("train",))  # the command also measures free runs on validation clips, every epoch
windows = cut_windows(clips.split("train"), past=25, future=30, stride=2)
network = new_network(clips, windows, seed=SEED)
network.train()  # dropout, one mask for a whole free run
body = Body.of(clips.names, clips.parents, clips.fps)
scale = network.pose_std[6 * len(clips.names) :][:4]  # deviations of the root's steps and height
skeleton = Skeleton(body.parents, body.limbs, body.feet, body.fps, scale)

ahead = network.delta.ahead  # frames ahead of the points of the path that are read, up to a second
# Frames read beyond a window, for the path of one that is made faster by up to 1.2.
further = math.ceil((windows.future + max(ahead)) * 1.2) - windows.future
batches = WindowBatches(
    windows, batch_size=BATCH, accumulate=1, seed=SEED, device=torch.device("cpu"), further=further, last=30
)
# Left and right are swapped. Half of the windows are told their path; these are bent, and made faster or slower.
changed = Augmentation(clips.names, fps=clips.fps, conditioned=0.5, mirror=0.5, speeds=(0.75, 1.2), bend=0.3)

adam = torch.optim.AdamW(network.parameters(), lr=1e-3, betas=(0.9, 0.99), weight_decay=0.01)
rate = cosine_rate(1e-3, warmup=30, total=EPOCHS * batches.per_epoch, final=0.02)
# The command averages the weights, 0.99 of the old and 0.01 of the new ones, and keeps the average that was best.


def course_of(batch, start, frames, generator):
    """The path ahead of the root, which begins 0.15 m (and radians) off and is the true one after a second."""
    off = 0.15 * torch.randn(len(start), 3, generator=generator)
    path = batch.steps_from(start, frames + max(ahead))  # [N, F + frames ahead, 3] steps: left, ahead, turn
    return Course(path, ahead, given=batch.conditioned).off(off, max(ahead))


def losses_of(predicted, part, fade):
    """The losses of predicted frames: means over windows and frames, in which frame t weighs t ** -fade."""
    last = part.known.part(part.known.frames - 1)
    weights = frame_weights(part.mask(), fade)  # [N, F], 0 after the end of a clip
    frames = Frames(predicted, part.truth, last, weights, part.offsets, part.contacts_known, part.conditioned)
    return {loss: frames.mean(loss(frames, skeleton)) for loss in WEIGHTS}


def run(batch, frames, share, generator):
    """Losses of frames that are predicted one by one, each from those before it; a share of them from the true ones."""
    start, part = batch.somewhere(frames, generator)
    course = course_of(batch, start, part.truth.frames, generator)
    forced = torch.rand(len(start), part.truth.frames, generator=generator) < share
    return losses_of(
        roll_out(network.delta, part.known, part.truth.frames, course=course, truth=part.truth, forced=forced),
        part,
        fade=0.5,
    )


def shot(batch, generator):
    """Losses of all frames at once: each feature is the last frame's plus ten cosines of time."""
    start, part = batch.somewhere(network.shot.frames, generator)
    course = course_of(batch, start, network.shot.frames, generator)
    here = torch.zeros(len(start), 2)
    predicted = network.shot(part.known, course.at(here, here[:, 0], 0))  # at the origin, heading 0, frame 0
    return losses_of(predicted.first(part.truth.frames), part, fade=0.0)


def descend(losses, update):
    """One step of AdamW on the sum of weighted losses."""
    loss = torch.stack(losses).sum()
    adam.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
    adam.param_groups[0]["lr"] = rate(update)
    adam.step()  # the heads share no weights: one without a gradient stays as it is
    return loss.item()


torch.manual_seed(SEED)  # of dropout
for update in range(UPDATES):
    step = update + 1
    draws = batches.generator("augmentation", step)
    for number in range(SHOTS - 1):
        drawn = changed(batches.drawn(draws), draws)
        losses = shot(drawn, batches.generator("shots", step * 1024 + number))
        descend([WEIGHTS[name] * value for name, value in losses.items()], update)

    (batch,) = batches(step)
    shots = changed(batches.drawn(draws), draws)
    batch = changed(batch, draws)
    generator = batches.generator("losses", step * 1024)
    # A run of 8 frames, of which a share FORCED is fed the true frame before, and a free run whose length rises from 1
    # to 15 frames over 0.6 of the epochs.
    short = run(batch, 8, FORCED, generator)
    horizon = round(1 + 14 * min(1.0, update / batches.per_epoch / (0.6 * EPOCHS)))
    long = run(batch, horizon, 0.0, generator)
    once = shot(shots, generator)
    loss = descend(
        [WEIGHTS[name] * short[name] + WEIGHTS[name] * once[name] for name in WEIGHTS]
        + [torch.stack([WEIGHTS[name] * long[name] for name in WEIGHTS]).sum()],
        update,
    )
    print(f"update {update}: loss {loss:.4f}, joints are off by {math.degrees(short[rot_local].item()):.2f} degrees")
