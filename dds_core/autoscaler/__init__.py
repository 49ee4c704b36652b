"""The autoscaler's half of the core: groups of servers as Cluster Autoscaler is shown them."""
