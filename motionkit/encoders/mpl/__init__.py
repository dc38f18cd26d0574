"""The motion encoder of the predictor: one frame and the poses just before it become features, phase and gait."""
