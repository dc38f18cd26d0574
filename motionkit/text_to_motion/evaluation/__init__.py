"""Sampling, scoring and judging of policies: held-out measurement, alarms, generated files."""
