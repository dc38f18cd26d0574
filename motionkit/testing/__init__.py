"""Contract checks for plugins: call one from a test of your package.

Each check raises one ``AssertionError`` that lists all violations, a sentence each.

    from motionkit.testing import check_reward

    def test_contract() -> None:
        check_reward("my-reward")

Kinds and types of plugins that one system brings have their checks in its module ``checks``, such as
`motionkit_success.checks.check_environment`.
"""

from motionkit.testing._component import Findings, check_component, component_of, options_of
from motionkit.testing._datasets import SPLITS, check_dataset
from motionkit.testing._policies import check_policy
from motionkit.testing._protocols import check_protocol
from motionkit.testing._rewards import TEXTS, TOLERANCE, check_reward, is_near, sample_motions, sample_prompts
from motionkit.testing._trainers import check_trainer

__all__ = [
    "SPLITS",
    "TEXTS",
    "TOLERANCE",
    "Findings",
    "check_component",
    "check_dataset",
    "check_policy",
    "check_protocol",
    "check_reward",
    "check_trainer",
    "component_of",
    "is_near",
    "options_of",
    "sample_motions",
    "sample_prompts",
]
