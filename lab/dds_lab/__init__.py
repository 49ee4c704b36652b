"""The lab: a simulated composable cluster, for tests, demonstrations, what-if runs and people without one.

Two halves that never mix: `api` is an API server that knows nothing of what devices are for, `actors` are the controllers
that live on it and use only its verbs. `lab` puts both together from a scenario.

- `api`: the API server: verbs, HTTP semantics, the rules of each kind, one store.
- `actors`: scheduler, controllers, kubelets, a vendor's driver, operator, reference publisher and scaler; and the hardware.
- `manager`: the hardware's REST API, for publishers that ask it.
- `scenario`: what a scenario file may say; `setup`, `settings` and `steps` make it true.
- `faults`: what a scenario lets go wrong: in the world, and on the wire.
- `record`: recordings, of a lab or of a real cluster.
- `conform`: the questions of the conformance suite, asked of any API server; recordings of two runs, compared.
- `face`: the API server over HTTP.
- `driver`: our own scaler and publisher on the lab's time.
- `judge`: what must never happen in a run, whoever scales or publishes.
"""
