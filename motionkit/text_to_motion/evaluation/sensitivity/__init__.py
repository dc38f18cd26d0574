"""``eval sensitivity``: what a reward, a judge or an evaluator does not see.

Reference clips are changed, each in one way that a caption may ask about, and scored again. The fall in score is
compared with that of an unrelated caption.
"""
