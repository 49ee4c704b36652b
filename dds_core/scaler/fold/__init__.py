"""The folds of the scaler's events, one module per kind; `folds` has them all."""
