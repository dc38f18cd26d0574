"""What captions say."""

from __future__ import annotations

from collections import Counter
from statistics import median

from motionkit.clips.profile._profile import Profile
from motionkit.page.charts import bars, histogram
from motionkit.page.elements import figure, grid
from motionkit.page.wording import count

_WORDS = 12
_LONGEST = 40


def captions(profile: Profile) -> str:
    """Return the section; empty without captions."""
    found = profile.captions
    if not found.captions:
        return ""
    facts = found.document()
    charts = [
        figure(bars(list(rows.items())[:_WORDS], label=name), f"{name}, base forms, by number of uses.")
        for name, rows in (
            ("Most frequent verbs", found.top_verbs()),
            ("Most frequent other words", found.top_words()),
        )
        if rows
    ]
    if len(set(found.words)) > 1:
        charts.append(_lengths(found.words))
    text = (
        f"{count(found.captions, 'caption')}, {facts['different']:,} of them different, for "
        f"{found.clips - found.without:,} of {count(found.clips, 'clip')}; a vocabulary of "
        f"{count(len(found.forms), 'word')}, {facts['words_once']:,} of them used once."
    )
    return f"<h2>Captions</h2><p>{text}</p>{grid(charts)}"


def _lengths(words: list[int]) -> str:
    """Draw how many words captions have."""
    numbers = Counter(min(number, _LONGEST) for number in words)
    start = min(numbers)
    counts = [numbers[place] for place in range(start, max(numbers) + 1)]
    marks = {"median": float(median(words)), "mean": sum(words) / len(words)}
    # A bar stands over its own number, so bins begin half a word below.
    chart = histogram(
        start - 0.5, 1.0, counts, label="length", unit="words", of="captions", marks=marks, digits=1, whole=True
    )
    longest = f", {max(words)} at most" if max(words) > _LONGEST else ""
    return figure(chart, f"Words per caption{longest}.")
