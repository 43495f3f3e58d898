"""Lectures on low-precision arithmetic as scripts that run in seconds."""

__version__ = "0.1.0"
