"""The pure core of the dynamic device scaler: it decides, and never does I/O, reads a clock or starts a thread."""
