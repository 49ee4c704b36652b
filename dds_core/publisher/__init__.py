"""The publisher's half of the core: from what a fabric has free, what claims hold and what is attached, it derives the slices
that show the scheduler what it may allocate, and the labels that say where. Pure like the scaler's half: facts go in, decisions
come out, all in a log of its own (`<cluster>/publisher`)."""
