"""Wider tasks in training: what a query must be told from."""

import pytest
import torch
import torch.nn.functional as F

from metadrift.errors import MetadriftError
from metadrift.replay import put_together
from metadrift.tasks import TaskBatch


def own_loss(learner, support, labels, query, ways):
    """The loss of queries class by class, whose classes are the first of the support."""
    logits = learner.logits(support, labels, query, ways)
    wanted = torch.arange(3).repeat_interleave(query.shape[1] // 3)
    return F.cross_entropy(logits[0], wanted)


@pytest.mark.parametrize("name", ["protonet", "ridge"])
def test_tasks_put_together_have_the_loss_of_one_task_with_all_their_classes(
    name, batches, small_learner
):
    stream = batches(0)
    tasks = TaskBatch.concatenate([next(stream), next(stream)])[:3]
    learner, labels = small_learner(name, size=12).double(), tasks.support_labels
    features = learner.features(tasks.support, tasks.query)
    known, asked = features[:, :3], features[:, 3:]
    both = torch.cat([labels, labels + 3])
    first = torch.cat([known[:1], known[1:2]], 1), both, asked[:1], 6
    second = torch.cat([known[1:2], known[:1]], 1), both, asked[1:2], 6
    alone = known[2:], labels, asked[2:], 3
    wanted = torch.stack([own_loss(learner, *task) for task in (first, second, alone)])
    outcome = learner(tasks, [5, 5, 6])
    torch.testing.assert_close(outcome.loss, wanted)
    assert outcome.logits.shape == (3, 6, 3)
    assert (outcome.loss[:2] > learner(tasks).loss[:2]).all()
    assert torch.isfinite(outcome.importance).all()


def test_a_head_of_fixed_ways_refuses_wider_tasks(make_tasks, small_learner):
    with pytest.raises(MetadriftError, match="head has fixed ways"):
        small_learner("anil")(make_tasks(tasks=2), [0, 0])


def test_only_tasks_of_one_owner_go_together():
    assert put_together([0, 0, 1, 1], 1) is None
    assert put_together([0, 0, 1, 1], 2) == [0, 0, 1, 1]
    assert put_together([3, 3, 3, 3], 2) == [0, 0, 1, 1]
    assert put_together([3, 3, 5, 3], 8) == [0, 0, 1, 0]
