"""The dynamic device scaler: its events, its state, the folds, the rules, and the instants that it waits for."""
