"""Text-motion datasets: the starter, folders in the layout of HumanML3D, and prompts of several actions."""
