"""Turns published GPU traces into scenarios of the lab, and computes their numbers.

- `reading`: reads a CSV file, plain or gzipped, row by row; errors name file and line.
- `formats`: each format of trace gives a `demand.Trace`.
- `facts`: the numbers of a trace in a window.
- `scenario`: makes a scenario, with its pods, of a window of a trace, and writes it.
"""
