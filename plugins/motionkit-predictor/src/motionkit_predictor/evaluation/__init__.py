"""Motion predictors measured at horizons, beside baselines that every table shows."""
