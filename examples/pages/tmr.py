"""TMR: how `motionkit pretrain tmr` learns which text belongs to which motion, on a page.

    python examples/pages/tmr.py

Two encoders map texts and motions into one space, where a pair is to be near and all else far: InfoNCE over a batch
(Petrovich et al. 2023, section 3). The command's default also shows changed copies of motions and captions, such as the
motion standing still or the caption with the other side, which must score below their pair. After each update the
weights are those of `TMRTraining.step` with the command's defaults, to the bit (tests/pages).

Shapes: B pairs, T frames, W features a frame, D numbers of a latent; b motions or texts, K changed copies of one kind.
"""

import torch
import torch.nn.functional as F

from motionkit import load_dataset
from motionkit.rl import length_mask
from motionkit.text import mirror_text
from motionkit.text_to_motion.pairs.data import PairBatches
from motionkit.text_to_motion.pairs.negatives import Negatives
from motionkit.text_to_motion.pairs.settings import kinds_of
from motionkit.text_to_motion.pairs.train import statistics
from motionkit.text_to_motion.tmr.files import text_table
from motionkit.text_to_motion.tmr.model import ActorSizes, new_tmr, open_text_model, sentence_embeddings
from motionkit.text_to_motion.tmr.train import readable, text_scale
from motionkit.training.learner import cosine_rate

SEED = 0
UPDATES = 100  # the command: 2000; these are its warm-up
BATCH = 64
TEMPERATURE = 0.1
CONTRASTIVE, LATENT, NEGATIVES = 0.1, 1e-5, 0.5  # weights of the losses

dataset = load_dataset("starter")
clips = dataset.clips("train")
mean, std = statistics(clips, floor=0.1 * dataset.normalizer.std)  # [W] each
text_model = open_text_model("stored", kind="stored", table=text_table())  # frozen; a vector for each text
sizes = ActorSizes(4 * len(mean), latent=128, feedforward=256, layers=3, heads=4, variational=False)  # 4 frames a token
tmr = new_tmr(sizes, mean, std, text_model, text_scale=text_scale(text_model, clips), seed=SEED)
tmr.train()  # dropout of 0.1
adam = torch.optim.AdamW(tmr.parameters(), lr=5e-4, betas=(0.9, 0.999), weight_decay=0.01)
rate = cosine_rate(5e-4, warmup=100, total=2000, final=0.05)

# Which clip, caption and crop: a function of seed and update. Half the clips are mirrored, their captions too.
crops = {"random_crop": dataset.random_crop, "crop_share": 0.5, "crop_min": 32}
common = {"max_length": dataset.max_length, "seed": SEED, "skeleton": dataset.skeleton, **crops}
batches = PairBatches(clips, batch_size=BATCH, mirror=0.5, resize=0.15, **common)
copies = Negatives(clips, kinds_of("all", starter=True), share=0.7, fps=dataset.fps, **common)
captions = list(dict.fromkeys(text for clip in clips for text in clip.captions))
captions += [mirror_text(text) for text in captions]
copies.settle(captions, "starter", lambda texts: readable(text_model, texts))  # changed captions that have a vector
everything = slice(0, BATCH)  # the rows of this process


def motion_latents(raw, lengths):
    """Encode motions ``[b, T, W]`` in four groups of similar length, which saves padding; ``[b, D]``."""
    mask = length_mask(lengths, raw.shape[1])  # [b, T]
    x = torch.where(mask[..., None], tmr.normalize(raw), 0.0)
    groups = torch.argsort(lengths, stable=True).chunk(4)
    parts = [tmr.encode_normalized(x[g, : lengths[g].max()], mask[g, : lengths[g].max()]).mu for g in groups]
    return torch.cat(parts)[torch.argsort(torch.cat(groups))]


def text_latents(texts):
    """Encode texts; ``[b, D]``."""
    return tmr.encode_tokens(text_model.encode(texts)).mu


def score(texts, motions):
    """Cosines of the rows of ``[B, D]`` and ``[B, D]``, over the temperature; ``[B]``."""
    return (F.normalize(texts, dim=-1) * F.normalize(motions, dim=-1)).sum(-1) / TEMPERATURE


def scattered(latents, places):
    """Put the latents ``[K, D]`` of copies into their rows of ``[B, D]``; return the rows, and which have one."""
    rows = torch.zeros(BATCH, latents.shape[1]).index_copy(0, torch.tensor(places), latents)
    return rows, torch.zeros(BATCH, dtype=torch.bool).index_fill(0, torch.tensor(places), True)


# The command measures retrieval on held-out clips before and after.
torch.manual_seed(SEED)  # of dropout
for update in range(UPDATES):
    batch = batches(update + 1)
    features = text_model.encode(batch.captions)
    motion = motion_latents(batch.features, batch.lengths)  # [B, D]
    text = tmr.encode_tokens(features).mu  # [B, D]

    # Copies: the changed motion of a clip is a further negative of its own text, in a crop of its own; a changed text
    # one of its motion. Not every clip has one.
    changed, retold = copies.motions(batch, everything), copies.captions(batch, everything)
    rows, known = scattered(motion_latents(changed.features, changed.lengths), changed.places)
    of_motions = score(text, rows).masked_fill(~known, -torch.inf)  # [B]
    rows, known = scattered(text_latents(retold.captions), retold.places)
    of_captions = score(rows, motion).masked_fill(~known, -torch.inf)  # [B]

    # Score of every text with every motion. Pairs whose sentences say the same are no negatives: TMR's threshold of
    # 0.8, on a cosine that is mapped to 0 to 1.
    logits = F.normalize(text, dim=-1) @ F.normalize(motion, dim=-1).T / TEMPERATURE  # [B, B]
    sentences = sentence_embeddings(features)  # [B, .], of length 1
    same = (sentences @ sentences.T > 2 * 0.8 - 1) & ~torch.eye(BATCH, dtype=torch.bool)
    logits = logits.masked_fill(same, -torch.inf)

    # InfoNCE: of B motions and a copy, which one is the text's, and the other way round. Row i belongs to column i.
    right = torch.arange(BATCH)
    to_motion = F.cross_entropy(torch.cat([logits, of_motions[:, None]], 1), right)
    to_text = F.cross_entropy(torch.cat([logits.T, of_captions[:, None]], 1), right)
    contrastive = (to_motion + to_text) / 2
    near = F.smooth_l1_loss(text, motion)
    # And a copy must score below its pair: log(1 + exp(copy - pair)).
    pair = score(text, motion)  # [B]
    below = F.softplus(of_motions - pair).mean() + F.softplus(of_captions - pair).mean()
    # The paper also has a decoder with its reconstruction, and the KL of Gaussian latents; both are off by default.
    loss = torch.stack([CONTRASTIVE * contrastive, LATENT * near, NEGATIVES * below]).sum()

    adam.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(tmr.parameters(), 1.0)
    adam.param_groups[0]["lr"] = rate(update)
    adam.step()
    if update % 20 == 0 or update == UPDATES - 1:
        first = (logits.argmax(1) == right).float().mean().item()
        print(f"update {update}: loss {loss.item():.4f}, the right motion is first for {first:.0%} of {BATCH} texts")
