"""The errors that a person is meant to read: one sentence that names the thing and the way out."""


class MetadriftError(Exception):
    """Something outside the program is wrong: a file, a folder, an argument, the data."""

    exit_code = 1


class UsageError(MetadriftError):
    """The command or the call was put wrongly; nothing was tried."""

    exit_code = 2
