"""Leader election with a Lease: a pure state machine, the Lease object, and the threads that run both."""
