"""``eval sensitivity``: what a reward, a judge or an evaluator does not see.

Real clips are changed, each in one way that a caption may ask about, and scored again. What the change costs is set
against what a caption costs that has nothing to do with the clip.
"""

from motionkit.evaluation.sensitivity._audit import PLAIN, Audit, Measured, audit
from motionkit.evaluation.sensitivity._bench import Audited, Bench, kinds_of_reward, trained_kinds
from motionkit.evaluation.sensitivity._clips import Clips
from motionkit.evaluation.sensitivity._figures import Columns, Figure
from motionkit.evaluation.sensitivity._quick import Quick, quick_audit
from motionkit.evaluation.sensitivity._rows import QUICK, SOURCES, Example, Row
from motionkit.evaluation.sensitivity._words import (
    ASKED,
    PHYSICS,
    Verdict,
    document,
    main_table,
    tables,
    verdict,
    worst_actions,
)

__all__ = [
    "ASKED",
    "PHYSICS",
    "PLAIN",
    "QUICK",
    "SOURCES",
    "Audit",
    "Audited",
    "Bench",
    "Clips",
    "Columns",
    "Example",
    "Figure",
    "Measured",
    "Quick",
    "Row",
    "Verdict",
    "audit",
    "document",
    "kinds_of_reward",
    "main_table",
    "quick_audit",
    "tables",
    "trained_kinds",
    "verdict",
    "worst_actions",
]
