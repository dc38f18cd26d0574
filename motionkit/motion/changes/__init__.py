"""Changes of reference clips, each of which removes one thing that a caption may ask for.

A reward is audited with them (``motionkit eval sensitivity``) and a TMR is trained against them (``train.negatives``).
Poses are averaged, scaled and joined as rotations of bones, so that bones keep their lengths. Path, heading and floor
stay unless they are what is changed.
"""
