"""Networks that judge motions: TMR and their strict loaders."""
