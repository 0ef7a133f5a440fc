"""Data: packs on disk, importers that make them, and the built-in domains."""
