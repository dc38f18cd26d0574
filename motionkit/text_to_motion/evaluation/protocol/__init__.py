"""Text-to-motion evaluation as the field reports it: R-precision, MM-Dist, FID, Diversity, MultiModality, physics."""
