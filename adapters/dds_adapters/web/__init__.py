"""HTTP server of a running process, for probes and metrics. It knows HTTP and the two reviews that guard a page, but not the
content of pages."""
