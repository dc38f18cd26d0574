"""Parts of every page: charts, tables, words for figures, and the whole page around them.

Charts are inline SVG: no library, readable in light and dark and by a screen reader, complete without a script. All
are drawn `WIDTH` units wide and shown at about that many pixels, in one column on a telephone and in three on a desk,
so that their type has one size everywhere. Nothing here knows what is shown: the profile of a dataset and the report
of a run use it.
"""

from motionkit.page.curves import Curve, curves
from motionkit.page.html import drawing, html_page

__all__ = ["Curve", "curves", "drawing", "html_page"]
