"""What a dataset of motions holds: statistics, a page about them, and settings that suit it."""
