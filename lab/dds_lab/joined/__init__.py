"""The lab's parts in an existing cluster: simulated nodes, devices, operator and fabric, beside a real control plane.
`joining` is the whole; `marks` says by what everything is found again."""
