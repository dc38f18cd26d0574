"""Kinds of plugins of text to motion, and what it adds to those that are shared."""

from motionkit.plugins import Kind

KINDS = (
    Kind("rewards", function="motionkit.text_to_motion.rewards.function_reward:of_file"),
    Kind(
        "algorithms",
        "algorithm",
        gives={"algorithm": "motionkit.text_to_motion.grpo.algorithms.base:Algorithm"},
        runtime=("policy", "reference", "rewards", "seed", "precision", "shuffle", "world"),
        check="motionkit.text_to_motion.checks:check_algorithm",
        scaffold="motionkit.plugins:motionkit-algorithm-demo",
        after="trainers",
    ),
    Kind(
        "protocols",
        reads={
            "diffusion": "motionkit.text_to_motion.policy:DiffusionPolicy",
            "several": "",  # several policies
            "retrieval": "",
            "reward": "motionkit.contracts.reward:Reward",
        },
    ),
    Kind(
        "policies",
        gives={"diffusion": "motionkit.text_to_motion.policy:DiffusionPolicy"},
        checks={"diffusion": "motionkit.text_to_motion.checks:check_diffusion_policy"},
    ),
)
