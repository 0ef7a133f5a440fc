"""A learner outside of a run: classify new pictures, and learn from a live stream."""
