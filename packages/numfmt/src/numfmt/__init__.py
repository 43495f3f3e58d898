"""Number formats, rounding, summation orders and GPU matrix units, simulated exactly and fast on a CPU."""

__version__ = "0.1.0"
