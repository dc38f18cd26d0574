"""Whole pages: one HTML file without external resources, in the common style."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from html import escape
from importlib.resources import files
from pathlib import Path

from motionkit.version import __version__

# Commands of a page, each with a button that copies it.


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


def renewing(page: str, *, seconds: float) -> str:
    """Return a whole page that loads itself again every so often, for one that is written again while it is open."""
    source = files(__package__).joinpath("renew.js").read_text(encoding="utf-8")
    head, end, tail = page.rpartition("</body>")
    return f'{head}<script data-seconds="{seconds:g}">{source}</script>{end}{tail}'


def _words(line: str) -> str:
    """Return a line that a narrow page breaks between words, not inside them."""
    return " ".join(f"<span>{escape(word)}</span>" for word in line.split(" "))


# Elements of a page: tiles, figures in a grid, tables that fit on a phone.

_CLASSES = {"error": ["bad"], "warning": ["warn"], "better": ["good"], "worse": ["bad"]}
"""CSS classes of cells by their text."""


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
    numbers: Sequence[int] = (),  # columns of numbers, aligned to the right
    # ``cards``, ``reasons``, ``plain`` for a table that is narrow enough for a phone, or ``plain result``; with
    # ``interval`` after it a phone omits the last column of numbers, with ``real`` the fifth one. With ``columns``
    # after it, and `columns_script` on the page, a click on a row's name sorts the columns by that row.
    kind: str = "cards",
    # Class of each row's last cell (``good``, ``bad``), if it does not follow from its text; empty for none
    tones: Sequence[str] = (),
) -> str:
    """Return a table.

    On a phone a table of the kind ``cards`` becomes a list: the first cell is the heading of an entry, and each other
    one is labelled with its column. In the kind ``reasons`` the first two cells share a line and the third, a sentence,
    has the whole width below them.

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


def _large(value: str) -> str:
    head, space, unit = value.partition(" ")
    small = space and not unit.startswith("/") and head[:1].isdigit()
    return f"{escape(head)} <small>{escape(unit)}</small>" if small else escape(value)


def html_page(title: str, body: str, *, made_by: str, scripts: str = "") -> str:
    """Return a whole HTML page.

    Args:
        title: Its title, as text.
        body: Its HTML, from `motionkit.page`'s charts and elements.
        made_by: The command that makes it, by which `is_made_by` recognises the page.
        scripts: Script elements of its parts, such as `hover_script`; they come last.

    Example:
        >>> from motionkit.page.charts import bars
        >>> body = figure(bars([("walk", 3.0), ("jump", 1.0)], label="Clips by action"), "Clips of each action.")
        >>> html_page("Walks & jumps", body, made_by="report")[:29]
        '<!doctype html><html lang="en'
    """
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8">{_mark(made_by)}'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body><main>{body}</main>{scripts}</body></html>\n"
    )


def result_page(
    title: str,  # the title, as text
    lead: Sequence[str],  # sentences of the result, as text
    parts: Iterable[str],  # HTML of the parts, in order
    *,
    made_by: str,  # the command that makes it; see `html_page`
    # Rest of the last line, such as which guide explains the figures; if empty there is no such line
    see: str = "",
    sub: str = "",  # a line below the title
    scripts: str = "",  # script elements of the parts
) -> str:
    """Return the page of a result: its title, the result in sentences, the parts, and the version that made it."""
    below = f'<p class="sub">{escape(sub)}</p>' if sub else ""
    body = [
        f"<header><h1>{escape(title)}</h1>{below}</header>",
        *(f'<p class="lead-in">{escape(text)}</p>' for text in lead),
        *parts,
        f'<p class="cap">Made by motionkit {__version__}; {see}</p>' if see else "",
    ]
    return html_page(title, "".join(body), made_by=made_by, scripts=scripts)


def stored_picture(
    folder: Path,
    name: object,  # file name from an untrusted document; its folders are ignored
    *,
    most: int,  # bytes of the largest one
) -> str:
    """Return a WebP of a folder as a data URL for ``<img>``; empty if there is none."""
    path = folder / Path(str(name)).name
    if path.suffix != ".webp" or not path.is_file() or path.stat().st_size > most:
        return ""
    return f"data:image/webp;base64,{base64.b64encode(path.read_bytes()).decode()}"


def drawing(chart: str, *, width: int) -> str:
    """Return a chart as a standalone ``.svg`` file, in the colours of the pages, light and dark.

    Args:
        chart: The chart.
        width: Default width in pixels.
    """
    colours = _STYLE[: _STYLE.index("*{box-sizing")]
    rules = "".join(row for row in _STYLE.splitlines() if row.startswith("svg ")).replace("svg ", "")
    font = 'text{font-family:system-ui,"Segoe UI",Roboto,"Noto Sans",sans-serif}'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" style="background:var(--card)"'
    opened, body = chart.removeprefix("<svg").split(">", 1)
    return f"{head}{opened}><style>{colours}{rules}{font}</style>{body}\n"


def is_made_by(path: Path, command: str) -> bool:
    """Return whether a file is a page of `html_page` by this command, which may be replaced by a new one."""
    with path.open("rb") as file:
        return _mark(command).encode() in file.read(1024)


def _mark(command: str) -> str:
    return f'<meta name="generator" content="motionkit {escape(command)}">'


# Curves use neither the colours of left and right in the player nor those of its first two tracks, before and after.
_STYLE = """
:root{color-scheme:light dark;--ink:#1b1f24;--soft:#5b6470;--line:#dfe3e8;--card:#fff;--page:#f5f6f8;
--bar:#3d6fb4;--mark:#c4661a;--bad:#b3261e;--warn:#8a5a00;--good:#1d7a4f;
--c0:#6a3fb5;--c1:#857300;--c2:#12808f;--c3:#b5347f;--c4:#2e7d32;--c5:#c0392b;--c6:#8c6244;--c7:#6b7280}
@media(prefers-color-scheme:dark){:root{--ink:#e7eaee;--soft:#a3adb9;--line:#333b45;--card:#1c2128;--page:#13171c;
--bar:#6f9fe0;--mark:#f0a860;--bad:#ff8a80;--warn:#f2c14e;--good:#6fcf9f;
--c0:#b79cf0;--c1:#cdbb3a;--c2:#4cc0cf;--c3:#ee7fbd;--c4:#7bc47f;--c5:#f08a7d;--c6:#cfa27f;--c7:#a3adb9}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);font:15px/1.5 system-ui,"Segoe UI",Roboto,"Noto Sans",sans-serif;
overflow-wrap:break-word}
main{max-width:1100px;margin:0 auto;padding:28px 20px 60px}
h1{font-size:25px;line-height:1.25;margin:0 0 6px;overflow-wrap:anywhere}
h2{font-size:18px;margin:36px 0 12px;padding-bottom:4px;border-bottom:1px solid var(--line)}
h3{font-size:14px;margin:18px 0 8px;font-weight:600}
p{margin:6px 0}
.sub,.cap{color:var(--soft);font-size:13px}
.cap{margin:8px 2px}
code,pre{font:12.5px/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace}
code span{display:inline-block;max-width:100%;overflow-wrap:anywhere}
.commands>div{display:flex;gap:10px;align-items:baseline;margin:3px 0}.commands code{min-width:0}
.copy{flex:none;font:inherit;font-size:11.5px;line-height:1.3;padding:1px 8px;border-radius:10px;
border:1px solid var(--line);background:var(--card);color:var(--soft);cursor:pointer}
.copy:hover{color:var(--ink)}.copy[hidden]{display:none}
.card>.commands{padding:9px 14px}
.card:has(>table){overflow-x:auto}
ul.runs{list-style:none;margin:12px 0 0;padding:0}.runs li{margin:6px 0}
.runs b{color:var(--k);font-size:17px;margin-right:6px}
.tiles{display:grid;grid-template-columns:repeat(4,1fr);gap:10px;margin:18px 0 0}
.tiles div,figure,.card{background:var(--card);border:1px solid var(--line);border-radius:8px}
.tiles div{display:flex;flex-direction:column-reverse;justify-content:flex-end;padding:9px 13px}
.tiles dd{margin:0;font-size:21px;font-weight:600;font-variant-numeric:tabular-nums;line-height:1.35}
.tiles small{font-size:13px;font-weight:400;color:var(--soft)}
.tiles dt{color:var(--soft);font-size:12.5px}
ul.notes{margin:14px 0 0;padding:10px 14px 10px 32px;background:var(--card);border:1px solid var(--line);
border-left:4px solid var(--mark);border-radius:8px}
.notes b{color:var(--bad)}
.grid{display:grid;gap:14px}
.g1{max-width:520px}.g2{grid-template-columns:repeat(2,minmax(0,1fr))}.g3{grid-template-columns:repeat(3,minmax(0,1fr))}
figure{margin:0;padding:14px 15px;display:flex;flex-direction:column}
figcaption{color:var(--soft);font-size:12.5px;line-height:1.4;margin-top:auto;padding-top:8px}
svg{display:block;width:100%;max-width:380px;height:auto;margin:0 auto}
svg text{font-size:11px;fill:var(--soft);font-variant-numeric:tabular-nums}
svg .axis,svg .note{fill:var(--ink)}
svg .note{stroke:var(--card);stroke-width:3px;paint-order:stroke}
svg .bar{fill:var(--bar)}svg .bar:hover{opacity:.7}
svg .grid{stroke:var(--line);fill:none;stroke-width:1}
svg .base{stroke:var(--soft);stroke-width:1}
svg .tick{stroke:var(--ink);stroke-width:2}
svg .curve{fill:none;stroke:var(--k);stroke-width:1.8}svg .dot{fill:var(--k)}
svg .lead{stroke:var(--k);stroke-width:.6;opacity:.6}
svg .c0,.runs .c0{--k:var(--c0)}svg .c1,.runs .c1{--k:var(--c1)}svg .c2,.runs .c2{--k:var(--c2)}
svg .c3,.runs .c3{--k:var(--c3)}svg .c4,.runs .c4{--k:var(--c4)}svg .c5,.runs .c5{--k:var(--c5)}
svg .c6,.runs .c6{--k:var(--c6)}svg .c7,.runs .c7{--k:var(--c7)}
svg .faint{stroke-width:1;opacity:.28}
svg .rule{stroke:var(--soft);stroke-width:1;stroke-dasharray:2 2}
svg .control{--k:var(--soft)}svg .curve.control{stroke-dasharray:4 3}
svg .mark{stroke:var(--mark);stroke-width:1.8}svg .m1{stroke-dasharray:4 3}
table{border-collapse:collapse;width:100%;font-size:13.5px;font-variant-numeric:tabular-nums}
th,td{text-align:left;padding:6px 14px;border-bottom:1px solid var(--line);vertical-align:top}
tr:last-child td{border-bottom:0}
th{font-weight:600;color:var(--soft);font-size:12.5px}
td.n,th.n{text-align:right}td.n{white-space:nowrap}.plain th.n{width:84px}
.result th.n{width:auto}.result td:first-child{font-weight:600}.result td{white-space:nowrap}
.reasons td:first-child{font-weight:600}
pre{margin:0;padding:12px 14px;overflow:auto;max-height:420px}
.bad{color:var(--bad)}.warn{color:var(--warn)}.good{color:var(--good)}
td.good,td.bad{font-weight:600}
figure:has(svg[data-frame]){position:relative}svg[data-frame]{touch-action:pan-y}
figure h3{margin:0 0 6px}h3 .prompt{font-weight:400;color:var(--soft)}
.tip{position:absolute;top:44px;padding:4px 8px;border-radius:6px;background:var(--ink);color:var(--card);
font-size:12px;line-height:1.45;white-space:pre;pointer-events:none;font-variant-numeric:tabular-nums}
.lead-in{font-size:17px;line-height:1.5;margin:16px 0 0;max-width:76ch}
motionkit-player{height:580px;margin:0 0 6px}
details{margin-top:12px}summary{cursor:pointer;color:var(--soft);font-size:13.5px;margin-bottom:8px}
.strip{display:flex;flex-wrap:wrap;gap:6px;margin:0 0 10px}.strip figure{padding:4px}
.strip img{image-rendering:pixelated;display:block}.strip .wrong{border:2px solid var(--bad)}
.strip .right{border:2px solid var(--good)}
.pair{display:grid;grid-template-columns:1fr 1fr;gap:6px}.pair img{width:100%}
.wide{display:grid;grid-auto-flow:column;grid-auto-columns:minmax(0,1fr);gap:10px;margin:0 0 14px;position:relative}
.strip.wide figure{padding:8px}.wide img{width:100%;border-radius:4px;image-rendering:auto}
.wide figcaption{margin:0;display:flex;flex-direction:column;gap:3px;color:var(--ink)}
.wide figcaption>b{color:var(--soft);font-weight:600;font-size:11.5px}.wide q{font-size:14px;quotes:none}
.told{display:flex;flex-wrap:wrap;gap:2px 10px;color:var(--soft)}.told b{color:var(--ink);font-weight:600}
.why{position:absolute;top:14px;left:14px;margin:0;padding:1px 8px;border-radius:9px;background:var(--mark);
color:var(--card);font-size:11.5px;font-weight:600}
.sorter{margin:0 0 10px;color:var(--soft);font-size:13px}.sorter[hidden]{display:none}
.sorter button{font:inherit;margin:0 2px;padding:2px 10px;border:1px solid var(--line);border-radius:12px;
background:var(--card);color:var(--ink);cursor:pointer}
.sorter button[aria-pressed]{background:var(--ink);color:var(--card)}
.columns td button{font:inherit;color:inherit;text-align:inherit;padding:0;border:0;background:none;cursor:pointer}
.columns td button::after{content:" ↕";color:var(--soft)}
.columns td button[data-order]::after{content:" ▾";color:var(--ink)}
.columns td button[data-order=ascending]::after{content:" ▴"}
dl.defs{display:grid;grid-template-columns:max-content 1fr;gap:5px 18px;font-size:13.5px}
dl.defs dt{font-weight:600}dl.defs dd{margin:0;color:var(--soft)}
@media(max-width:900px){.g2,.g3{grid-template-columns:repeat(2,minmax(0,1fr))}}
@media(max-width:700px){
.wide{grid-auto-flow:row;grid-template-columns:1fr 1fr}
.tiles{grid-template-columns:1fr 1fr}
.g2,.g3{grid-template-columns:minmax(0,1fr)}
table:not(.plain),:not(.plain)>tbody,:not(.plain)>*>tr,:not(.plain)>*>*>td{display:block;width:auto}
:not(.plain)>thead{display:none}
:not(.plain)>*>tr{padding:9px 14px;border-bottom:1px solid var(--line)}:not(.plain)>*>tr:last-child{border-bottom:0}
:not(.plain)>*>*>td,:not(.plain)>*>*>td.n{padding:1px 0;border:0;text-align:left;white-space:normal}
.cards td:first-child{font-weight:600}
.cards>*>*>td[data-label]{display:flex;justify-content:space-between;gap:16px;text-align:right}
.cards td[data-label]::before{content:attr(data-label);color:var(--soft);text-align:left;flex:none;max-width:60%}
.cards td:empty{display:none}
.result td,.result th{padding:6px 7px;font-size:13px}.result td:first-child{white-space:normal}
.interval .n:nth-last-child(2),.real .n:nth-child(5){display:none}
.reasons>*>tr{display:flex;flex-wrap:wrap;justify-content:space-between;gap:0 12px}
.reasons td:nth-child(3){flex-basis:100%;color:var(--soft)}
dl.defs{grid-template-columns:1fr;gap:0}dl.defs dd{margin-bottom:8px}}
@media(max-width:560px){motionkit-player{height:610px}main{padding:20px 14px 48px}}
@media print{body{background:#fff}.card,figure,.tiles div{break-inside:avoid}details[open] pre{max-height:none}}
"""
"""Light and dark by the reader's setting; below 700 pixels tables become lists; no external resources."""


# Buttons that sort a list, and rows that sort the columns of their table.


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


# Values as text: the same digits, units and plurals in the terminal and on pages.

UNKNOWN = "not known"


def count(number: int, thing: str, things: str = "") -> str:
    """Return a number with its noun: ``1 clip``, ``1,200 clips``.

    Example:
        >>> count(1, "clip"), count(1200, "clip")
        ('1 clip', '1,200 clips')
    """
    return f"{number:,} {thing if number == 1 else things or f'{thing}s'}"


def joined(names: Sequence[str], most: int = 5) -> str:
    """Return names as a phrase: ``a, b and c``, or the first ones ``and 3 more``.

    Example:
        >>> joined(["a", "b", "c"]), joined(["a", "b", "c"], most=2)
        ('a, b and c', 'a, b and 1 more')
    """
    shown = [*names[:most], f"{len(names) - most} more"] if len(names) > most else list(names)
    return " and ".join(part for part in (", ".join(shown[:-1]), *shown[-1:]) if part)


def metres(value: float | None, unit: str = "") -> str:
    """Return a length or a speed to a centimetre."""
    return _fixed(value, 2, unit)


def degrees(value: float | None) -> str:
    """Return an angle to a tenth of a degree."""
    return UNKNOWN if value is None else f"{value:,.1f}°"


def share(value: float | None) -> str:
    """Return a fraction in percent."""
    return UNKNOWN if value is None else percent(100 * value)


def percent(value: float) -> str:
    """Return percent without decimals, with one below 1 %."""
    if value == 0 or value >= 1:
        return f"{value:.0f} %"
    return f"{value:.1f} %" if value >= 0.1 else "under 0.1 %"


def plain(value: float | None, digits: int = 2) -> str:
    """Return a number without a unit."""
    return _fixed(value, digits, "")


def duration(seconds: float) -> str:
    """Return a duration: seconds below two minutes, then minutes, from two hours on hours.

    Example:
        >>> duration(90), duration(1800), duration(9000)
        ('90.0 s', '30.0 min', '2.5 h')
    """
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def capped(value: float, uncapped: float) -> str:
    """Return a capped value, with its uncapped value if that is higher."""
    return plain(value) if uncapped <= value else f"{plain(value)} (uncapped {plain(uncapped)})"


def _fixed(value: float | None, digits: int, unit: str) -> str:
    return UNKNOWN if value is None else f"{value:,.{digits}f}{f' {unit}' if unit else ''}"
