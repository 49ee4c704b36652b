"""Lists and watches: each resource followed by a thread of its own, the newest state of each object in one queue."""
