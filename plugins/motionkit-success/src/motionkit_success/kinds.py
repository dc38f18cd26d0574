"""Kinds of plugins of learned success rewards, and what they add to those that are shared."""

from motionkit.plugins import Kind

KINDS = (
    Kind("datasets", gives={"frames": "", "transitions": ""}),
    Kind(
        "environments",
        "environment",
        gives={"episodes": "motionkit_success.environments.base:Environment"},
        runtime=("num_envs",),
        check="motionkit_success.checks:check_environment",
        alone=True,
        scaffold="motionkit_success:motionkit-environment-demo",
        after="datasets",
    ),
    Kind(
        "episodes",
        "episode format",
        gives={
            "dataset": "motionkit_success.episode_formats:EpisodeFormat",  # which is read, too
            "export": "motionkit_success.episode_formats:EpisodeFormat",
        },
        after="environments",
    ),
    Kind("protocols", reads={"classifier": ""}),
    Kind("policies", gives={"actor": ""}),
)
