"""The lab's parts in somebody else's cluster: nodes, devices, operator and fabric that do not exist, beside a real control plane.
`joining` is the whole; `marks` says by what everything is found again."""
