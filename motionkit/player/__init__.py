"""The one player: motions as a self-contained page, or as a part of a report."""

from motionkit.player._page import player_assets, player_fragment, player_html, write_player
from motionkit.player._payload import MAX_TRACKS
from motionkit.player._track import PlayerTrack, track_of

__all__ = ["MAX_TRACKS", "PlayerTrack", "player_assets", "player_fragment", "player_html", "track_of", "write_player"]
