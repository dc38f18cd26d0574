"""Contract checks for plugins: call one from a test of your package.

Each check raises one ``AssertionError`` that lists all violations, a sentence each.

    from motionkit.testing import check_reward

    def test_contract() -> None:
        check_reward("my-reward")
"""

from motionkit.testing._component import check_component
from motionkit.testing._datasets import check_dataset
from motionkit.testing._environments import check_environment
from motionkit.testing._policies import check_policy, check_predictor
from motionkit.testing._protocols import check_protocol
from motionkit.testing._rewards import check_reward, sample_motions, sample_prompts
from motionkit.testing._trainers import check_algorithm, check_loop, check_trainer

__all__ = [
    "check_algorithm",
    "check_component",
    "check_dataset",
    "check_environment",
    "check_loop",
    "check_policy",
    "check_predictor",
    "check_protocol",
    "check_reward",
    "check_trainer",
    "sample_motions",
    "sample_prompts",
]
