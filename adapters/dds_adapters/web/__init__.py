"""HTTP for those who look at a running process: probes and metrics. It knows HTTP and the two reviews that guard a page, and
nothing of what the pages say."""
