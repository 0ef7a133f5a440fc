"""Six small generated domains, so that everything can be tried without a download."""
