"""A device that is not there: tensors with real numbers that say they lie on another device.

It fails where an operation mixes them with tensors of the CPU, as a GPU does, and counts how often
the host waits for the device. It stands for a GPU where there is none. (Its name is `meta`, because
that is the one other device that every build of torch can differentiate on.)
"""

import torch
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from torch.utils._pytree import tree_flatten, tree_map

META = torch.device("meta")
aten = torch.ops.aten
READS = {
    aten._local_scalar_dense.default,
    aten.equal.default,
    aten.is_nonzero.default,
    aten.nonzero.default,
    aten.masked_select.default,
    aten._unique2.default,
}


class OnDevice(torch.Tensor):
    """A tensor on the device; `inside` holds its numbers."""

    @staticmethod
    def __new__(cls, inside):
        return torch.Tensor._make_wrapper_subclass(
            cls,
            inside.size(),
            strides=inside.stride(),
            storage_offset=inside.storage_offset(),
            dtype=inside.dtype,
            device=META,
        )

    def __init__(self, inside):
        self.inside = inside

    def __repr__(self):
        return f"OnDevice({self.inside})"

    @classmethod
    def __torch_dispatch__(cls, function, types, arguments=(), options=None):
        raise AssertionError(f"{function} was called outside of the device")


class PretendDevice(TorchDispatchMode):
    """Inside, `device="meta"` means the device.

    Attributes
    ----------
    waits
        What made the host wait for the device: numbers read back, and copies that block.
    """

    def __init__(self):
        super().__init__()
        self.waits = []

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        options = dict(options or {})
        given = [x for x in tree_flatten((arguments, options))[0] if isinstance(x, torch.Tensor)]
        there = [x for x in given if isinstance(x, OnDevice)]
        target = options.get("device")
        if target is not None:
            options["device"] = torch.device("cpu")
        if function in (aten._to_copy.default, aten.copy_.default):
            return self._copy(function, arguments, options, there, target)
        if there:
            self._refuse_mixed(function, given)
        if function in READS and there:
            self.waits.append(str(function))
        found = function(*tree_map(_inside, arguments), **tree_map(_inside, options))
        lies_there = bool(there) if target is None else torch.device(target) == META
        if not lies_there:
            return found
        out = tree_map(_wrapped, found)
        return return_and_correct_aliasing(function, arguments, options, out) if there else out

    def _copy(self, function, arguments, options, there, target):
        blocks = not (options.get("non_blocking") or (len(arguments) > 2 and arguments[2]))
        source = arguments[-1] if function == aten.copy_.default else arguments[0]
        if function == aten.copy_.default:
            into, source = arguments[:2]
            goes, comes = isinstance(into, OnDevice), isinstance(source, OnDevice)
        else:
            comes = isinstance(source, OnDevice)
            goes = comes if target is None else torch.device(target) == META
        if goes != comes and (blocks or comes):
            self.waits.append(f"{function} {'from' if comes else 'to'} the device")
        found = function(*tree_map(_inside, arguments), **options)
        if function == aten.copy_.default:
            return arguments[0]
        return OnDevice(found) if goes else found

    @staticmethod
    def _refuse_mixed(function, given):
        # A number in a tensor of the CPU may go along, as on a GPU.
        strangers = [x for x in given if not isinstance(x, OnDevice) and x.ndim]
        assert not strangers, f"{function} mixes the device with a tensor of the CPU"


def put_on_device(module):
    """The module with its parameters and buffers on the device."""
    with PretendDevice():
        for part in module.modules():
            for name, p in part._parameters.items():
                if p is not None:
                    moved = OnDevice(p.detach())
                    part._parameters[name] = torch.nn.Parameter(moved, p.requires_grad)
            for name, buffer in part._buffers.items():
                if buffer is not None:
                    part._buffers[name] = OnDevice(buffer)
    return module


def _inside(x):
    return x.inside if isinstance(x, OnDevice) else x


def _wrapped(x):
    return OnDevice(x) if isinstance(x, torch.Tensor) and not isinstance(x, OnDevice) else x
