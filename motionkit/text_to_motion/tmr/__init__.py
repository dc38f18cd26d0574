"""TMR: text-to-motion retrieval. Encoders, strict loaders, statistics."""
