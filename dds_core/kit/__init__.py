"""Building blocks of components: tables with a journal, the base of states, deadlines, invariants, policies, runs of rules."""
