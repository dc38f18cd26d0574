"""How often an actor fulfils its task: by the environment, and by a learned reward."""

from motionkit.evaluation.success._episodes import Act, Episodes, run_episodes, start_seeds
from motionkit.evaluation.success._figures import change_of, rate_interval

__all__ = ["Act", "Episodes", "change_of", "rate_interval", "run_episodes", "start_seeds"]
