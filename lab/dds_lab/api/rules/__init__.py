"""What each kind demands of its objects: one module per family of kinds, pure functions from objects to causes."""
