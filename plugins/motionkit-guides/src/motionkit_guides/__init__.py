"""Commands, options and settings of the training guides, answered with motionkit's names.

Nothing imports this package. The command line finds it by its entry point, `motionkit_guides.answers:ANSWERS`, and asks
it about what it does not know.
"""
