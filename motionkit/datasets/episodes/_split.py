"""Parts of the episodes for training, validation and test."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

from motionkit.datasets.episodes._records import EpisodeRecord
from motionkit.errors import MotionkitError

_FEWEST = 3


def split_episodes(
    records: Sequence[EpisodeRecord], *, seed: int = 0, val: float = 0.15, test: float = 0.15
) -> tuple[list[int], list[int], list[int]]:
    """Return the numbers of the episodes of each part; all frames of an episode are in one part.

    Each class is shared out by itself, in the order of a hash of content and seed: an episode stays in its part
    whatever the order of the files, and every part has both classes.

    Args:
        records: The episodes.
        seed: Another split.
        val: Share of the validation part.
        test: Share of the test part.

    Returns:
        Numbers for training, validation and test, each in rising order.

    Raises:
        MotionkitError: There are fewer than three episodes of a class.
    """
    parts: tuple[list[int], list[int], list[int]] = ([], [], [])
    for positive, word in ((True, "with a success"), (False, "without one")):
        own = [number for number, record in enumerate(records) if record.positive is positive]
        if len(own) < _FEWEST:
            raise MotionkitError(
                f"there are {len(own)} episodes {word} and {len(records) - len(own)} others.",
                why="training, validation and test need one of each class at least.",
                fix="collect more: motionkit reward-collect; a policy that never succeeds gives no positives.",
            )
        own.sort(key=lambda number: _rank(records[number], seed))
        held = [max(1, round(share * len(own))) for share in (val, test)]
        parts[1].extend(own[: held[0]])
        parts[2].extend(own[held[0] : sum(held)])
        parts[0].extend(own[sum(held) :])
    return tuple(sorted(part) for part in parts)  # type: ignore[return-value]


def _rank(record: EpisodeRecord, seed: int) -> str:
    content = "".join(record.sha256[name] for name in sorted(record.sha256))
    return sha256(f"{seed}/{record.id}/{content}".encode()).hexdigest()
