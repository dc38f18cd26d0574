"""Text-to-motion evaluation as the field reports it: R-precision, MM-Dist, FID, Diversity, MultiModality, physics."""

from motionkit.evaluation.text_to_motion._compare import Comparison, compare_policies
from motionkit.evaluation.text_to_motion._figures import (
    QUANTITIES,
    Sheet,
    embedding_figures,
    moving_figures,
    multimodality_figure,
    npss_columns,
    physics_figures,
    require_finite,
)
from motionkit.evaluation.text_to_motion._formats import formatted
from motionkit.evaluation.text_to_motion._how import MODES, Amount, Sampling, amount_of, common_guidance, sampling_of
from motionkit.evaluation.text_to_motion._measure import Measurement, Replication
from motionkit.evaluation.text_to_motion._policy import find_policy, open_policy, set_threads
from motionkit.evaluation.text_to_motion._published import COLUMNS, PUBLISHED, comparable
from motionkit.evaluation.text_to_motion._questions import Question, Questions
from motionkit.evaluation.text_to_motion._run import Opened, Outcome, evaluate, open_all
from motionkit.evaluation.text_to_motion._store import ReplicationStore
from motionkit.evaluation.text_to_motion._summary import explain, summarise, table, verdict

__all__ = [
    "COLUMNS",
    "MODES",
    "PUBLISHED",
    "QUANTITIES",
    "Amount",
    "Comparison",
    "Measurement",
    "Opened",
    "Outcome",
    "Question",
    "Questions",
    "Replication",
    "ReplicationStore",
    "Sampling",
    "Sheet",
    "amount_of",
    "common_guidance",
    "comparable",
    "compare_policies",
    "embedding_figures",
    "evaluate",
    "explain",
    "find_policy",
    "formatted",
    "moving_figures",
    "multimodality_figure",
    "npss_columns",
    "open_all",
    "open_policy",
    "physics_figures",
    "require_finite",
    "sampling_of",
    "set_threads",
    "summarise",
    "table",
    "verdict",
]
