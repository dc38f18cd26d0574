"""A profile as one page of HTML: plots, tables, suggested settings; it loads nothing from anywhere."""

from motionkit.clips.profile.page._page import is_profile_page, profile_page

__all__ = ["is_profile_page", "profile_page"]
