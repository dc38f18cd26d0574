"""Charts as inline SVG: no library, no script, readable in light and dark and by a screen reader.

All are drawn `WIDTH` units wide and shown at about that many pixels, in one column on a telephone as in three on a
desk, so that their type has one size everywhere.
"""

from motionkit.page.charts._histogram import histogram
from motionkit.page.charts._rose import rose
from motionkit.page.charts._rows import bars, spans
from motionkit.page.charts._shares import shares
from motionkit.page.charts._svg import WIDTH, ticks

__all__ = ["WIDTH", "bars", "histogram", "rose", "shares", "spans", "ticks"]
