"""Many runs: comparisons of methods, learners, shots and seeds, and the paper's tables."""
