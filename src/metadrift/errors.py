"""The errors that users read: one sentence that names the problem and the way out."""


class MetadriftError(Exception):
    """Something outside the program is wrong: a file, a folder, an argument, the data."""

    exit_code = 1
    shared = False
    """True if every process of a run raises the same error; then only the leading one prints it."""


class LostProcessError(MetadriftError):
    """Another process of the run is gone; what is shared with it cannot be closed in order."""


class UsageError(MetadriftError):
    """The command or the call was wrong; nothing was tried."""

    exit_code = 2
