"""The folds of the publisher's events, one module per kind; `folds` has them all."""
