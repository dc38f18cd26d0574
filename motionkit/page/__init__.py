"""Elements of HTML pages: charts, tables, formatted values, and the page around them.

Charts are inline SVG: no library, readable in light and dark and by a screen reader, complete without a script. All are
drawn `WIDTH` units wide and shown at about that many pixels, in one column on a phone and in three on a desktop, so
that their text has the same size everywhere. Used by the profile of a dataset and the report of a run, among others.
"""

from motionkit.page.curves import Curve, curves
from motionkit.page.html import drawing, html_page

__all__ = ["Curve", "curves", "drawing", "html_page"]
