"""Shared by all rooms: atomic files, locks, tables, reading, terminal output."""
