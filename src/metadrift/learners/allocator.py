"""Keep freed memory for the next step instead of returning it to the system."""

from __future__ import annotations

import ctypes
import sys

_M_TRIM_THRESHOLD = -1
_M_MMAP_MAX = -4


def keep_freed_memory() -> bool:
    """Tell glibc to keep large freed blocks; True if the allocator accepted.

    Each step allocates and frees the same large tensors. By default glibc maps every block above
    32 MB again. The system then zeroes its pages one by one, which can take longer than the
    arithmetic. The allocators of other systems do not change.

    The setting holds for the whole process, so only the commands `run` and `resume` use it.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return bool(mallopt(_M_MMAP_MAX, 0)) and bool(mallopt(_M_TRIM_THRESHOLD, 2**31 - 1))
