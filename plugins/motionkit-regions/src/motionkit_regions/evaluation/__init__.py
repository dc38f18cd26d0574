"""Region policies, measured: captions of regions, masks of captions, both loops closed, and what captions say."""
