"""Kinds of plugins of self-play, and what it adds to those that are shared."""

from motionkit.plugins import Kind

KINDS = (
    Kind(
        "loops",
        "loop",
        gives={"loop": "motionkit.regions.self_play.loop:Loop"},
        runtime=("policy",),
        check="motionkit.regions.checks:check_loop",
        question="Which loop to play.",
        after="trainers",
    ),
    Kind(
        "datasets",
        gives={"regions": "motionkit.regions.datasets.base:RegionDataset"},
        checks={"regions": "motionkit.regions.checks:check_region_dataset"},
        scaffolds={"regions": "motionkit-dataset-demo-regions"},
    ),
    Kind("protocols", reads={"regions": "motionkit.regions.policy:RegionPolicy"}),
    Kind(
        "policies",
        gives={"regions": "motionkit.regions.policy:RegionPolicy"},
        checks={"regions": "motionkit.regions.checks:check_region_policy"},
    ),
)
