"""What motion prediction adds to the kinds of plugins."""

from motionkit.plugins import Kind

KINDS = (
    Kind("protocols", reads={"predictor": "motionkit.predictor.policy:Predictor"}),
    Kind(
        "policies",
        gives={"predictor": "motionkit.predictor.policy:Predictor"},
        checks={"predictor": "motionkit.predictor.checks:check_predictor"},
    ),
)
