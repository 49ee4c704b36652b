"""Runs of a scenario with a scaler in it, each perturbed at one point, and what is asked of every one of them.

What a scaler hears from the API server and what it writes there is counted in a run that nothing disturbs; each of these is a
point at which a run of its own is disturbed (`perturb`). Whatever happens, the judge's rules hold; and when the trouble is over
and nothing more is wanted, all is as in the run without it (`oracle`).

The patterns are those of Sieve (Sun et al., OSDI 2022: intermediate, unobserved and stale states), with events that come late and
writes whose answer is lost, or that arrive when their process has been replaced.
"""
