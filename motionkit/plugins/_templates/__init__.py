"""Templates of ``motionkit plugins new``: a small plugin of each kind that works, to be replaced piece by piece."""
