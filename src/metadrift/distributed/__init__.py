"""One run over several processes: the group, shared features, shards of the memory."""
