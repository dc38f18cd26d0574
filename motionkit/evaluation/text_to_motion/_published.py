"""Published figures on HumanML3D's test split, to be laid beside ours."""

from __future__ import annotations

from dataclasses import dataclass

COLUMNS = ("r_precision_1", "r_precision_2", "r_precision_3", "fid", "mm_dist", "diversity", "multimodality")
_MDM = "fixed results of MDM's repository (evaluation of January 2024 on)"
_LIST = "as cited by later papers"
_LONG = "1,024 of 60 frames or more"
"""DiP's evaluation leaves out clips shorter than a prefix and a block (20 + 40 frames), but not of its real motions."""


@dataclass(frozen=True)
class Published:
    """One published row.

    Attributes:
        name: The model.
        figures: As printed, in the order of `COLUMNS`; empty where there is none.
        source: Where it stands.
        prompts: Motions that its FID is over.
    """

    name: str
    figures: tuple[str, ...]
    source: str
    prompts: str


PUBLISHED = (
    Published("real motions", (".512", ".702", ".797", ".002", "2.97", "9.50", ""), _MDM, "whole split"),
    Published(
        "MDM, 1000 steps",
        (".418 ± .005", ".604 ± .005", ".707 ± .004", ".489 ± .025", "3.63 ± .023", "9.45 ± .066", "2.87 ± .111"),
        _MDM,
        "1,024",
    ),
    Published(
        "MDM, 50 steps",
        (".455 ± .006", ".645 ± .007", ".749 ± .006", ".489 ± .047", "3.33 ± .025", "9.92 ± .083", "2.29 ± .07"),
        _MDM,
        "1,024",
    ),
    Published(
        "MDM, 50 steps, DistilBERT",
        (".491 ± .006", ".709 ± .006", ".815 ± .005", ".495 ± .041", "3.04 ± .016", "9.88 ± .098", "1.67 ± .12"),
        _MDM,
        "1,024",
    ),
    Published(
        "DiP",
        (".458 ± .006", ".664 ± .005", ".768 ± .004", ".228 ± .027", "3.23 ± .019", "9.41 ± .067", "1.04 ± .08"),
        _MDM,
        _LONG,
    ),
    Published("DiP with targets", (".452", ".661", ".772", ".232", "3.22", "9.47", "1.14"), _MDM, _LONG),
    Published("T2M-GPT", (".491", ".680", ".775", ".116", "3.118", "9.761", "1.856"), _LIST, "whole split"),
    Published("MotionLCM", (".502", ".698", ".798", ".304", "3.012", "9.607", "2.259"), _LIST, "whole split"),
    Published("MoMask", (".521", ".713", ".807", ".045", "2.958", "", "1.241"), _LIST, "whole split"),
)
"""HumanML3D, test split, evaluator of Guo et al., 20 replications. Rows measured before MDM's correction of January
2024 (R@3 of MDM about .61) are left out: they stand on another evaluation."""


def comparable(dataset: str, split: str, evaluator: str, protocol: str, *, width: int) -> str:
    """Return what of the published rows compares with ours, in a sentence."""
    against = [
        text
        for wrong, text in (
            (dataset != "humanml", f"the data are {dataset}, not HumanML3D"),
            (split != "test", f"the split is {split}, not test"),
            (
                evaluator == "starter" or width != 512,
                f"the evaluator is {evaluator}, {width} wide, not the released one",
            ),
        )
        if wrong
    ]
    if against:
        return f"nothing compares with the published rows: {'; '.join(against)}."
    own = "1,024" if protocol == "mdm" else "whole split"
    return (
        "R-precision and MM-Dist compare with every row but DiP's, whose prompts are of clips of 60 frames or more "
        f"(--dataset.min-length 60 measures on those); FID with rows over as many motions ({own}) only; "
        "published rows are means over 20 replications, ours is one draw of prompts."
    )
