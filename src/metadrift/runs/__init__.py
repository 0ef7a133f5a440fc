"""One run from its start to its resumable end."""
