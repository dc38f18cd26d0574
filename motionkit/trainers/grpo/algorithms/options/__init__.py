"""Options of the algorithms. Imports no torch.

The groups of an algorithm take the place of the settings' groups of the same name, which they extend, so that its
options are reached as ``rollout.group_size``, ``sampler.window_size`` and ``objective.clip_range``.
"""
