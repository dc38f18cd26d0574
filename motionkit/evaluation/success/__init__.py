"""How often an actor fulfils its task: by the environment, and by a learned reward."""
