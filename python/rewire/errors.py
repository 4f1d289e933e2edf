"""Errors of this package."""


class RewireError(Exception):
    """A request that cannot be met; the message says why, in one line."""
