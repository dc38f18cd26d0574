"""Parts of every page: charts, tables, words for figures, and the whole page around them.

Charts are inline SVG: no library, readable in light and dark and by a screen reader, complete without a script. All
are drawn `WIDTH` units wide and shown at about that many pixels, in one column on a telephone and in three on a desk,
so that their type has one size everywhere. Nothing here knows what is shown: the profile of a dataset and the report
of a run use it.
"""

from motionkit.page._charts import bars, rose, shares, spans
from motionkit.page._curves import Curve, curves, hover_script, parallel
from motionkit.page._histogram import histogram
from motionkit.page._page import (
    UNKNOWN,
    capped,
    columns_script,
    commands,
    copy_script,
    count,
    definitions,
    degrees,
    details,
    drawing,
    duration,
    figure,
    grid,
    html_page,
    is_made_by,
    joined,
    metres,
    note,
    plain,
    result_page,
    share,
    sort_script,
    sorter,
    stored_picture,
    table,
    tiles,
)

__all__ = [
    "UNKNOWN",
    "Curve",
    "bars",
    "capped",
    "columns_script",
    "commands",
    "copy_script",
    "count",
    "curves",
    "definitions",
    "degrees",
    "details",
    "drawing",
    "duration",
    "figure",
    "grid",
    "histogram",
    "hover_script",
    "html_page",
    "is_made_by",
    "joined",
    "metres",
    "note",
    "parallel",
    "plain",
    "result_page",
    "rose",
    "share",
    "shares",
    "sort_script",
    "sorter",
    "spans",
    "stored_picture",
    "table",
    "tiles",
]
