"""Motions with captions as a dataset on disk: tables, tags, splits, folders."""
