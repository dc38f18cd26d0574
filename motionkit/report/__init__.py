"""The page of a run: one HTML file made from its folder, and a page that compares several runs.

What is shown follows from what the folder holds, so a trainer of any package gets its results, curves, alarms, settings
and environment; held-out motions in ``heldout/before.npz`` and ``after.npz`` are played side by side, with reference
ones of the same actions in ``real.npz`` and those of points on the way in ``step-NNNNNNNN.npz``, and a motion
predictor's in ``heldout/predictions.npz`` over the truth; a success classifier's worst errors are in
``figures``. A trainer that wants another page names it in its `Component`.
"""
