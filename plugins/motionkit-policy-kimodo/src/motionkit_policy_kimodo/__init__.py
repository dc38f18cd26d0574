"""NVIDIA's Kimodo for motionkit: text-to-motion models of humans (SOMA, SMPL-X) and of the robot Unitree G1."""

FPS = 30.0  # frames per second of its motions
SHORTEST, LONGEST = 2, 300  # frames; velocities need two, and its training had at most 10 seconds
