"""Looking at motions: a player's page of files, and a page that browses the clips of a folder or dataset."""

from motionkit.clips.browse.run import View, ViewPlan, plan_view, view

__all__ = ["View", "ViewPlan", "plan_view", "view"]
