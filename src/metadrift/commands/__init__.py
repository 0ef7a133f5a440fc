"""One file per command: parse, call, print. Each has `main(words)`, which gives the exit code."""
