"""Download published datasets. A broken download can continue."""
