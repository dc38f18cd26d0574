"""``eval sensitivity``: what a reward, a judge or an evaluator does not see.

Real clips are changed, each in one way that a caption may ask about, and scored again. What the change costs is set
against what a caption costs that has nothing to do with the clip.
"""
