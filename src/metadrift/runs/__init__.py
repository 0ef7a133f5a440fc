"""One run: configuration, training, checkpoints, resume, summary."""
