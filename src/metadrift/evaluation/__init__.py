"""How good a learner is: unseen tasks of every domain, measures of forgetting, intervals."""
