"""The one player: motions as a self-contained page, or as a part of a report."""

from motionkit.player._page import MAX_TRACKS, document, inert, player_assets, player_fragment, write_player
from motionkit.player._track import PlayerTrack, track_of

__all__ = [
    "MAX_TRACKS",
    "PlayerTrack",
    "document",
    "inert",
    "player_assets",
    "player_fragment",
    "track_of",
    "write_player",
]
