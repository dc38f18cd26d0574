"""File formats: one module or folder for each, a reader, a writer, or both."""
