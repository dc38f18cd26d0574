"""NVIDIA's Kimodo for motionkit: text-to-motion models of humans (SOMA, SMPL-X) and of the robot Unitree G1."""
