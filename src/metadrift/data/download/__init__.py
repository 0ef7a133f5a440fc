"""Datasets from where they are published, fetched so that a broken download goes on."""
