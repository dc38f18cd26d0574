"""The text-to-motion evaluator of Guo et al. (CVPR 2022): networks, strict loader, words, statistics."""
