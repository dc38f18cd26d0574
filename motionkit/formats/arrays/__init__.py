"""Plain numpy files: joints, HumanML3D and KIT features, MDM's results."""
