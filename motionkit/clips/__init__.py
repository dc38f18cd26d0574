"""Walks over motion files: convert, check and profile."""
