"""`dds lab check`: plays a scenario many times with a scaler in it, disturbs each run at one point, and checks every run.

An undisturbed run, the *calm* run, counts the events that the scaler receives and the writes that it makes. Each of these is a
point at which one run is disturbed (`perturb`). In every run the judge's rules must hold, and the final state must be that of the
calm run (`oracle`).

The disturbances are those of Sieve (Sun et al., OSDI 2022: intermediate, unobserved and stale states), and also late events,
writes whose answer is lost, and writes that arrive after their process was replaced.
"""
