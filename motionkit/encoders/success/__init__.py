"""Success classifiers: from one frame of each camera to the probability that a task is fulfilled."""
