"""The subcommands of `fpsan`, one module each or a few that belong together.

A module has `register(subparsers)`, which adds its parsers; each sets `run` to a function from the parsed arguments to
an exit status.
"""
