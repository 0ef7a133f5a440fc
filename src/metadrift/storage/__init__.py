"""What all rooms share: atomic files, locks, tables, reading, terminal output."""
