"""Keeping freed memory for the next step instead of giving it back to the system."""

from __future__ import annotations

import ctypes
import sys

_M_TRIM_THRESHOLD = -1
_M_MMAP_MAX = -4


def keep_freed_memory() -> bool:
    """Tell glibc to keep large freed blocks; True if the allocator accepted.

    Each step allocates and frees the same large tensors. By default glibc maps every block above
    32 MB anew, and the system then hands out and zeroes its pages one by one, which can cost more
    than the arithmetic. Other systems' allocators are left as they are.

    It holds for the whole process, so the commands `run` and `resume` call it and the library
    does not.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return bool(mallopt(_M_MMAP_MAX, 0)) and bool(mallopt(_M_TRIM_THRESHOLD, 2**31 - 1))
