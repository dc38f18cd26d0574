"""AMASS: motions of SMPL bodies as rotations, in .npz files."""

from motionkit.formats.amass._read import read_amass

__all__ = ["read_amass"]
