"""Long runs of motion predictors: how they move after many seconds, and how they follow a path."""
