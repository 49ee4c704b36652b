"""What every component is built from: tables with a journal, the state over them, deadlines, one run of rules."""
