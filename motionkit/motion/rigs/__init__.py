"""Between skeletons: finding a body in a rig by its joints' names, resting bodies, rotations from joints."""
