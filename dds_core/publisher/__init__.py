"""The pool publisher's half of the core: from what a fabric has free, what claims hold and what is attached, to the slices that
show the scheduler what it may allocate, and to the labels that say where.

As the scaler's half it is pure: facts go in, decisions come out, both into a log of its own (`<cluster>/publisher`).
"""
