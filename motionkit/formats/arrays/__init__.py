"""Plain numpy files: joints, HumanML3D and KIT features, MDM's results."""

from motionkit.formats.arrays._features import read_features_file
from motionkit.formats.arrays._joints import is_mdm_results, read_joints, read_mdm_results, write_joints

__all__ = ["is_mdm_results", "read_features_file", "read_joints", "read_mdm_results", "write_joints"]
