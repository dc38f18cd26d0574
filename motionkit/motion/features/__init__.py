"""HumanML3D and KIT features: from joints, back to joints, mirrored, normalised."""
