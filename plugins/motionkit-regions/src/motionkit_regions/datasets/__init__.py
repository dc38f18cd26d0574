"""Images with regions and captions: from files in four formats, or drawn by code."""
