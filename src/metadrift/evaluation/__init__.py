"""Evaluation: unseen tasks of every domain, measures of forgetting, intervals."""
