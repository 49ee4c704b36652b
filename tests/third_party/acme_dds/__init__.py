"""What a package that is not dds adds to it. The tests install it from a wheel of its own; docs/extending.md shows it."""
