"""Changes of real clips, each of which takes one thing away that a caption may ask for.

They are what a reward is audited with (``motionkit eval sensitivity``) and what a TMR is trained against
(``train.negatives``). Poses are averaged, scaled and joined as turns of bones, so that bones keep their lengths; path,
heading and floor stay where they are not what is changed.
"""
