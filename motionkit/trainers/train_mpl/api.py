"""What others use of the predictor's trainer beside its command: advice for its settings. Imports torch."""
