"""The user's file of benchmarks/soak.py: a learner, a memory and a sampler by reference."""

from metadrift.learners.protonet import ProtoNet
from metadrift.memory import M2D3Memory
from metadrift.replay import PETS


class OurLearner(ProtoNet):
    """As ProtoNet."""


class OurMemory(M2D3Memory):
    """As M2D3."""


class OurSampler(PETS):
    """As PETS."""
