"""The rules of each kind: one module for each family of kinds, pure functions from objects to causes."""
