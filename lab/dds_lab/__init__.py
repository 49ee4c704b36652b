"""The lab: a simulated composable cluster, for tests, demonstrations, what-if runs and people without one.

Two halves that never mix: `api` is an API server that knows nothing of what devices are for, `actors` are the controllers
that live on it and use only its verbs. `face` serves the one over HTTP; `lab` puts both together from a scenario.
"""
