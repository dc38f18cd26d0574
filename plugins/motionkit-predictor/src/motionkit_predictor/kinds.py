"""What motion prediction adds to the kinds of plugins."""

from motionkit.plugins import Kind

KINDS = (
    Kind("protocols", reads={"predictor": "motionkit_predictor.policy:Predictor"}),
    Kind(
        "policies",
        gives={"predictor": "motionkit_predictor.policy:Predictor"},
        checks={"predictor": "motionkit_predictor.checks:check_predictor"},
    ),
)
