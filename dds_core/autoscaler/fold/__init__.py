"""The folds of the autoscaler's events, one module per kind; `folds` has them all."""
