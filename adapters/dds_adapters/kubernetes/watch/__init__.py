"""Lists and watches: one thread for each resource, and one queue that holds the newest state of each changed object."""
