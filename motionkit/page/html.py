"""Pages of HTML in one style, each a file without external resources: the page, its elements, their scripts."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from hashlib import sha256
from html import escape
from importlib.resources import files
from pathlib import Path

from motionkit.version import __version__

_CLASSES = {"error": ["bad"], "warning": ["warn"], "better": ["good"], "worse": ["bad"]}
"""CSS classes of cells by their text."""


def html_page(title: str, body: str, *, made_by: str, scripts: str = "", rules: str = "") -> str:
    """Return a whole HTML page.

    Args:
        title: Its title, as text.
        body: Its HTML, from `motionkit.page`'s charts and elements.
        made_by: The command that makes it, by which `is_made_by` recognises the page.
        scripts: Script elements of its parts, such as `hover_script`; they come last.
        rules: Its content security policy, see `content_rules`; empty for none.

    Example:
        >>> from motionkit.page.charts import bars
        >>> body = figure(bars([("walk", 3.0), ("jump", 1.0)], label="Clips by action"), "Clips of each action.")
        >>> html_page("Walks & jumps", body, made_by="report")[:29]
        '<!doctype html><html lang="en'
    """
    policy = f'<meta http-equiv="Content-Security-Policy" content="{rules}">' if rules else ""
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8">{_mark(made_by)}{policy}'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_style()}</style></head>"
        f"<body><main>{body}</main>{scripts}</body></html>\n"
    )


def content_rules(scripts: str = "", *, loads: bool = False) -> str:
    """Return a content security policy by which a page runs only its own scripts and loads nothing else.

    Args:
        scripts: Script elements of the page; those in its body are data.
        loads: Whether these scripts load others.

    Example:
        >>> content_rules()
        "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
    """
    codes = re.findall(r"<script>(.*?)</script>", scripts, re.DOTALL)
    hashes = [f"'sha256-{base64.b64encode(sha256(code.encode()).digest()).decode()}'" for code in codes]
    allowed = " ".join([*hashes, *(["'strict-dynamic'"] if loads else [])])
    run = f" script-src {allowed};" if hashes else ""
    return f"default-src 'none'; style-src 'unsafe-inline';{run} base-uri 'none'; form-action 'none'"


def result_page(
    title: str,
    lead: Sequence[str],
    parts: Iterable[str],
    *,
    made_by: str,
    see: str = "",
    sub: str = "",
    scripts: str = "",
) -> str:
    """Return the page of a result: its title, the result in sentences, the parts, and the version that made it.

    Args:
        title: The title, as text.
        lead: Sentences of the result, as text.
        parts: HTML of the parts, in order.
        made_by: The command that makes it; see `html_page`.
        see: Rest of the last line, such as which guide explains the figures; if empty there is no such line.
        sub: A line below the title.
        scripts: Script elements of the parts.
    """
    below = f'<p class="sub">{escape(sub)}</p>' if sub else ""
    body = [
        f"<header><h1>{escape(title)}</h1>{below}</header>",
        *(f'<p class="lead-in">{escape(text)}</p>' for text in lead),
        *parts,
        f'<p class="cap">Made by motionkit {__version__}; {see}</p>' if see else "",
    ]
    return html_page(title, "".join(body), made_by=made_by, scripts=scripts)


def drawing(chart: str, *, width: int) -> str:
    """Return a chart as a standalone ``.svg`` file, in the colours of the pages, light and dark.

    Args:
        chart: The chart.
        width: Default width in pixels.
    """
    style = _style()
    colours = style[: style.index("*{box-sizing")]
    rules = "".join(row for row in style.splitlines() if row.startswith("svg ")).replace("svg ", "")
    font = 'text{font-family:system-ui,"Segoe UI",Roboto,"Noto Sans",sans-serif}'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" style="background:var(--card)"'
    opened, body = chart.removeprefix("<svg").split(">", 1)
    return f"{head}{opened}><style>{colours}{rules}{font}</style>{body}\n"


def is_made_by(path: Path, command: str) -> bool:
    """Return whether a file is a page of `html_page` by this command, which may be replaced by a new one."""
    with path.open("rb") as file:
        return _mark(command).encode() in file.read(1024)


def stored_picture(folder: Path, name: object, *, most: int) -> str:
    """Return a WebP of a folder as a data URL for ``<img>``; empty if there is none.

    Args:
        folder: Where it is.
        name: File name from an untrusted document; its folders are ignored.
        most: Bytes of the largest one.
    """
    path = folder / Path(str(name)).name
    if path.suffix != ".webp" or not path.is_file() or path.stat().st_size > most:
        return ""
    return f"data:image/webp;base64,{base64.b64encode(path.read_bytes()).decode()}"


def renewing(page: str, *, seconds: float) -> str:
    """Return a whole page that loads itself again every so often, for one that is written again while it is open."""
    source = files(__package__).joinpath("renew.js").read_text(encoding="utf-8")
    head, end, tail = page.rpartition("</body>")
    return f'{head}<script data-seconds="{seconds:g}">{source}</script>{end}{tail}'


def figure(chart: str, caption: str, *, title: str = "") -> str:
    """Return a chart with a caption below it and optionally a title above it."""
    head = f"<h3>{escape(title)}</h3>" if title else ""
    return f"<figure>{head}{chart}<figcaption>{escape(caption)}</figcaption></figure>"


def grid(figures: Sequence[str]) -> str:
    """Return figures or tables side by side, three in a row; two if four would leave one alone."""
    columns = len(figures) if len(figures) < 4 else 2 if len(figures) == 4 else 3
    return f'<div class="grid g{columns}">{"".join(figures)}</div>'


def table(
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    numbers: Sequence[int] = (),
    kind: str = "cards",
    tones: Sequence[str] = (),
) -> str:
    """Return a table.

    On a phone a table of the kind ``cards`` becomes a list: the first cell is the heading of an entry, and each other
    one is labelled with its column. In the kind ``reasons`` the first two cells share a line and the third, a sentence,
    has the whole width below them.

    Args:
        columns: Heads of the columns.
        rows: Their cells.
        numbers: Columns of numbers, aligned to the right.
        kind: ``cards``, ``reasons``, ``plain`` for a table that is narrow enough for a phone, or ``plain result``; with
            ``interval`` after it a phone omits the last column of numbers, with ``real`` the fifth one. With
            ``columns`` after it, and `columns_script` on the page, a click on a row's name sorts the columns by that
            row.
        tones: Class of each row's last cell (``good``, ``bad``), if it does not follow from its text; empty for none.

    Example:
        >>> "<td>walk</td>" in table(("clip", "frames"), [("walk", 60)], numbers=(1,))
        True
    """

    def cell(tag: str, place: int, value: object, tone: str = "") -> str:
        words = escape(str(value))
        classes = ["n"] if place in numbers else []
        label = ""
        if tag == "th":
            words = words.replace("_", "_<wbr>")  # long names of settings may take two lines
        else:
            classes += [tone] if tone else _CLASSES.get(str(value), [])
            label = f' data-label="{escape(columns[place])}"' if place else ""
        mark = f' class="{" ".join(classes)}"' if classes else ""
        return f"<{tag}{mark}{label}>{words}</{tag}>"

    head = "".join(cell("th", place, name) for place, name in enumerate(columns))
    body = ""
    for number, row in enumerate(rows):
        last = {len(row) - 1: tones[number]} if tones else {}
        body += f"<tr>{''.join(cell('td', place, v, last.get(place, '')) for place, v in enumerate(row))}</tr>"
    return f'<div class="card"><table class="{kind}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def note(words: str) -> str:
    """Return a note in small type; empty for an empty text."""
    return f'<p class="cap">{escape(words)}</p>' if words else ""


def details(head: str, inside: str, *, opened: bool = False) -> str:
    """Return content that is shown after a click on `head`."""
    return f"<details{' open' if opened else ''}><summary>{escape(head)}</summary>{inside}</details>"


def tiles(values: Iterable[tuple[str, str]]) -> str:
    """Return values in large type, each with its name; units and text in brackets are smaller."""
    cells = "".join(f"<div><dt>{escape(name)}</dt><dd>{_large(value)}</dd></div>" for name, value in values)
    return f'<dl class="tiles">{cells}</dl>'


def definitions(texts: Mapping[str, str]) -> str:
    """Return a list of names with their meanings."""
    rows = "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in texts.items())
    return f'<dl class="defs">{rows}</dl>'


def commands(lines: Sequence[str]) -> str:
    """Return command lines with copy buttons, which are hidden without a script.

    Example:
        >>> commands(["motionkit doctor"]).count("<button")
        1
    """
    rows = "".join(
        f'<div><code>{_words(line)}</code><button class="copy" type="button" hidden>copy</button></div>'
        for line in lines
    )
    return f'<div class="commands">{rows}</div>' if rows else ""


@cache
def copy_script() -> str:
    """Return the script behind every button of `commands`; once per page is enough."""
    source = files(__package__).joinpath("copy.js").read_text(encoding="utf-8")
    return f"<script>{source}</script>"


def sorter(orders: Mapping[str, str], of: str) -> str:
    """Return buttons that sort a list; they are hidden without a script.

    Args:
        orders: Text of each button with the key that it sorts by: rows have it as ``data-KEY``, a number. The first is
            the initial order.
        of: The ``id`` of the list.

    Example:
        >>> sorter({"in order": "place", "IoU": "iou"}, "rows").count("<button")
        2
    """
    buttons = "".join(
        f'<button data-key="{escape(key)}"{"" if place else " aria-pressed=true data-up=true"}>{escape(words)}</button>'
        for place, (words, key) in enumerate(orders.items())
    )
    return f'<div class="sorter" data-sorts="{escape(of)}" hidden>Sort: {buttons}</div>'


@cache
def sort_script() -> str:
    """Return the script behind every `sorter` of a page; once per page is enough."""
    source = files(__package__).joinpath("sort.js").read_text(encoding="utf-8")
    return f"<script>{source}</script>"


@cache
def columns_script() -> str:
    """Return the script behind every `table` with ``columns`` in its kind; once per page is enough."""
    source = files(__package__).joinpath("columns.js").read_text(encoding="utf-8")
    return f"<script>{source}</script>"


@cache
def _style() -> str:
    """Return the style of all pages: light and dark by the reader's setting; below 700 pixels tables become lists.

    Curves use neither the colours of left and right in the player nor those of its first two tracks, before and after.
    """
    return "\n" + files(__package__).joinpath("style.css").read_text(encoding="utf-8")


def _mark(command: str) -> str:
    return f'<meta name="generator" content="motionkit {escape(command)}">'


def _large(value: str) -> str:
    head, space, unit = value.partition(" ")
    small = space and not unit.startswith("/") and head[:1].isdigit()
    return f"{escape(head)} <small>{escape(unit)}</small>" if small else escape(value)


def _words(line: str) -> str:
    """Return a line that a narrow page breaks between words, not inside them."""
    return " ".join(f"<span>{escape(word)}</span>" for word in line.split(" "))
