"""What every room writes and shows with: atomic files, locks, tables, terminal progress."""
