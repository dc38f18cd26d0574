"""Write a table of captions for the Bandai-Namco Research motion dataset (CC BY-NC 4.0), which you download yourself.

    python bandai_namco.py FOLDER captions.csv [takes|pairs]

Files are called dataset-1_walk_proud_001.bvh: what was done, in which style, and the number of the take. Both are put
into words here, in two wordings, a row each. Two ways to hold clips out:

takes   New takes of captions that are known. Ten takes that were recorded one after another stay together.
pairs   New captions: of the second dataset, whose ten actions were done in seven styles each, whole pairs of an action
        and a style are held out. Every action and every style is in each split.
"""

from __future__ import annotations

import csv
import hashlib
import sys
from collections import Counter
from pathlib import Path

ACTIONS = {
    "bow": ("a person takes a bow", "someone bows politely"),
    "bye": ("a person waves farewell with one hand", "someone waves bye"),
    "byebye": ("a person waves farewell with both hands", "someone keeps waving bye with both arms"),
    "call": ("a person calls somebody over by hand", "someone signals to come here"),
    "dance-long": ("a person performs a long dance", "someone keeps dancing"),
    "dance-short": ("a person performs a short dance", "someone dances briefly"),
    "dash": ("a person sprints", "someone dashes ahead"),
    "guide": ("a person guides someone with an arm", "someone points out the way"),
    "kick": ("a person does a kick", "someone kicks out with a leg"),
    "punch": ("a person throws a punch", "someone punches ahead"),
    "respond": ("a person replies with a gesture", "someone reacts to a call"),
    "run": ("a person runs", "someone jogs ahead"),
    "slash": ("a person cuts with a blade", "someone slashes through the air"),
    "walk": ("a person walks", "someone strolls ahead"),
    "walk-back": ("a person walks backwards", "someone steps back again and again"),
    "walk-left": ("a person sidesteps to the left", "someone moves left sideways"),
    "walk-right": ("a person sidesteps to the right", "someone moves right sideways"),
    "raise-up-both-hands": ("a person puts both hands up", "someone raises the two arms"),
    "raise-up-left-hand": ("a person puts the left hand up", "someone raises the left arm"),
    "raise-up-right-hand": ("a person puts the right hand up", "someone raises the right arm"),
    "walk-turn-left": ("a person walks and makes a left turn", "someone turns to the left while walking"),
    "walk-turn-right": ("a person walks and makes a right turn", "someone turns to the right while walking"),
    "wave-both-hands": ("a person waves with both hands", "someone swings both arms in a wave"),
    "wave-left-hand": ("a person waves with the left hand", "someone swings the left arm in a wave"),
    "wave-right-hand": ("a person waves with the right hand", "someone swings the right arm in a wave"),
}
STYLES = {
    "normal": "",
    "active": "full of energy",
    "angry": "in anger",
    "childish": "as a child does",
    "chimpira": "as a gangster does",
    "elderly": "as an elderly person does",
    "exhausted": "worn out",
    "feminine": "with feminine grace",
    "giant": "as a giant does",
    "happy": "in a happy mood",
    "masculine": "in a manly way",
    "masculinity": "in a manly way",
    "musical": "in time with music",
    "not-confident": "without confidence",
    "old": "as an elderly person does",
    "proud": "full of pride",
    "sad": "in a sad mood",
    "tired": "in a tired way",
    "youthful": "in a youthful way",
}
PARTS = {0: "test", 3: "val"}  # Of seven styles one is test and one is val, another one for each action


def takes(files: list[tuple[str, str, str, str]]) -> list[tuple[str, str]]:
    """Return split and group of each file: of 20 groups of ten takes about one is val and three are test."""
    groups = ["_".join((*about, str((int(take) - 1) // 10))) for *about, take in files]
    draws = [hashlib.sha256(group.encode()).digest()[0] % 20 for group in groups]
    return [
        ("val" if draw < 1 else "test" if draw < 4 else "train", group)
        for draw, group in zip(draws, groups, strict=True)
    ]


def pairs(files: list[tuple[str, str, str, str]]) -> list[tuple[str, str]]:
    """Return split and group of each file: a Latin square of actions and styles, both in the order of the alphabet."""
    row, column = ({name: place for place, name in enumerate(sorted({file[k] for file in files}))} for k in (1, 2))
    places = [(row[action] + column[style]) % len(column) for _, action, style, _ in files]
    return [(PARTS.get(place, "train"), f"{file[1]}_{file[2]}") for place, file in zip(places, files, strict=True)]


def main(folder: str, out: str, kind: str = "takes") -> None:
    """Write the table."""
    paths = sorted(Path(folder).rglob("dataset-*.bvh"), key=lambda path: path.name)
    files = [tuple(path.stem.split("_")) for path in paths]
    if odd := [path for path, file in zip(paths, files, strict=True) if len(file) != 4 or not file[3].isdecimal()]:
        sys.exit(f"{odd[0]} is not called dataset-N_ACTION_STYLE_NUMBER.bvh")
    if kind not in ("takes", "pairs"):
        sys.exit(f"{kind}: say takes or pairs")
    if kind == "pairs":
        files = [file for file in files if file[0] == "dataset-2"]
    if not files:
        sys.exit(f"there is no clip of the dataset in {folder}")
    if unknown := [file for file in files if file[1] not in ACTIONS or file[2] not in STYLES]:
        sys.exit(f"{'_'.join(unknown[0])}: there are no words for it; add them to ACTIONS and STYLES")
    splits = (takes if kind == "takes" else pairs)(files)
    with Path(out).open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["clip", "caption", "split", "group", "content", "style"])
        for name, (split, group) in zip(files, splits, strict=True):
            for words in ACTIONS[name[1]]:
                caption = f"{words} {STYLES[name[2]]}".strip()
                table.writerow(["_".join(name), caption, split, group, name[1], name[2]])
    counts = Counter(split for split, _ in splits)
    print(f"{out}: {len(files)} clips,", ", ".join(f"{counts[split]} {split}" for split in ("train", "val", "test")))


if __name__ == "__main__":
    if not 3 <= len(sys.argv) <= 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
