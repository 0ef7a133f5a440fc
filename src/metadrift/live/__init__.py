"""Using a learner outside of a run: naming new pictures, and learning from a live stream."""
