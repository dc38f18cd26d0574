"""Regions of images: captions of regions, masks of captions, and self-play of both."""
