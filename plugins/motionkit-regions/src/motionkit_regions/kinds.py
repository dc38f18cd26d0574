"""Kinds of plugins of self-play, and what it adds to those that are shared."""

from motionkit.plugins import Kind

KINDS = (
    Kind(
        "loops",
        "loop",
        gives={"loop": "motionkit_regions.self_play.loop:Loop"},
        runtime=("policy",),
        check="motionkit_regions.checks:check_loop",
        question="Which loop to play.",
        after="trainers",
    ),
    Kind(
        "datasets",
        gives={"regions": "motionkit_regions.datasets.base:RegionDataset"},
        checks={"regions": "motionkit_regions.checks:check_region_dataset"},
        scaffolds={"regions": "motionkit_regions:motionkit-dataset-demo-regions"},
    ),
    Kind("protocols", reads={"regions": "motionkit_regions.policy:RegionPolicy"}),
    Kind(
        "policies",
        gives={"regions": "motionkit_regions.policy:RegionPolicy"},
        checks={"regions": "motionkit_regions.checks:check_region_policy"},
    ),
)
