"""The lab's parts in somebody else's cluster: nodes, devices, operator and fabric that do not exist, beside real control-plane
components.

- `remote`: a real API server as actors know one, over HTTP with a kubeconfig.
- `marks`: the label that everything carries, and what the lab may make.
- `server`: what actors see and write there: only what is the lab's.
- `checks`: what is in the way before the lab joins, and what the cluster lacks.
- `heartbeats`: the nodes' leases and conditions, and the lab's own lease.
- `leaving`: finds everything by its label and removes it.
- `joining`: joins, plays and leaves.
"""
