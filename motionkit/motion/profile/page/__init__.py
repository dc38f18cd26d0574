"""A profile as one page of HTML: plots, tables, suggested settings; it loads nothing from anywhere."""

from motionkit.motion.profile.page._page import profile_page

__all__ = ["profile_page"]
