"""AMASS: motions of SMPL bodies as rotations, in .npz files."""
