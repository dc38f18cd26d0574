"""Films of episodes, as animated WebP."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
from PIL import Image

from motionkit.evaluation.success._episodes import Episodes
from motionkit.runs import write_bytes_atomic

_SHOWN = 192  # pixels; small pictures are enlarged
_MILLISECONDS, _LAST = 80, 800


def write_films(folder: Path, episodes: Episodes) -> None:
    """Write the films of episodes and ``films.json``, which says how each ended.

    Args:
        folder: Created when absent; nothing is written where there are no films.
        episodes: Episodes with films.
    """
    if not episodes.films:
        return
    folder.mkdir(parents=True, exist_ok=True)
    said = []
    for number, film in enumerate(episodes.films):
        name = f"{number}.webp"
        factor = max(1, _SHOWN // max(film.shape[1:3]))
        frames = [Image.fromarray(frame.repeat(factor, 0).repeat(factor, 1)) for frame in film]
        data = io.BytesIO()
        durations = [_MILLISECONDS] * (len(frames) - 1) + [_LAST]
        frames[0].save(data, "WEBP", save_all=True, append_images=frames[1:], duration=durations, loop=0, quality=80)
        write_bytes_atomic(folder / name, data.getvalue())
        predicted = None if episodes.predicted is None else bool(np.asarray(episodes.predicted)[number])
        said.append({"file": name, "success": bool(episodes.success[number]), "predicted": predicted})
    write_bytes_atomic(folder / "films.json", (json.dumps(said, indent=2) + "\n").encode())
