"""Leader election over a Lease: a pure state machine, the object as it is read and written, and the threads around both."""
