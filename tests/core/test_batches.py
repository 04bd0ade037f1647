"""Pairs as packed ids: batches of them, and their order in an epoch."""

import itertools

import numpy as np
import pytest

from convsim_mini.core import batches
from convsim_mini.core.packed import offsets_of
from convsim_mini.core.batches import Split, batch_order


@pytest.fixture(scope="module")
def split():
    """500 pairs of random sentences."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 7, size=1_000)
    return Split(rng.integers(50, size=lengths.sum()).astype(np.int32), offsets_of(lengths))


# ---------------------------------------------------------------- batches

def test_a_batch_is_the_inputs_and_then_their_responses(split):
    which = np.array([5, 0, 17, 305])
    sentences = split.batch(which).sentences
    for k, number in enumerate([*(2 * which), *(2 * which + 1)]):
        one, same = sentences.part(k, k + 1), split.packed.part(number, number + 1)
        assert one.ids.tolist() == same.ids.tolist()
    assert (sentences.ids.dtype, sentences.offsets.dtype) == (np.int32, np.int64)
    assert split.pairs == 500 and split.batch(which).task == "replies"


def test_labels_and_task_go_with_their_pairs(split):
    labelled = split._replace(labels=np.arange(500) % 3, task="nli")
    batch = labelled.batch(np.array([4, 8, 3]))
    assert batch.labels.tolist() == [1, 2, 0] and batch.task == "nli"


# ---------------------------------------------------------------- the order

@pytest.fixture(params=[256, 4])
def block(request, monkeypatch):
    """Shuffles all pairs at once, or blocks of 4 pairs, 16 blocks at a time."""
    monkeypatch.setattr(batches, "BLOCK", request.param)
    monkeypatch.setattr(batches, "SHUFFLED", 16)


@pytest.mark.parametrize("number, size", [(1_000, 64), (1_024, 128), (70, 70), (2_000, 700)])
def test_an_epoch_visits_each_pair_at_most_once_and_all_but_the_remainder(block, number, size):
    order = batch_order(number, size, seed=1)
    for _ in range(3):
        epoch = [next(order) for _ in range(number // size)]
        assert {batch.shape for batch in epoch} == {(size,)}
        visited = np.concatenate(epoch)
        assert len(np.unique(visited)) == len(visited) == number - number % size
        assert visited.min() >= 0 and visited.max() < number


def test_the_order_differs_between_epochs_and_seeds_and_goes_on_at_any_step(block):
    def order(seed, first_step=0):
        return np.stack([*itertools.islice(batch_order(1_050, 105, seed, first_step), 30)])

    whole, others = order(1), order(2)
    epochs = [tuple(rows.ravel()) for some in (whole, others) for rows in np.split(some, 3)]
    assert len({*epochs, tuple(sorted(epochs[0]))}) == 7
    for first_step in (0, 1, 9, 10, 11, 25):
        assert (order(1, first_step)[:30 - first_step] == whole[first_step:]).all()


def test_the_order_is_the_same_in_every_version():
    # otherwise a run resumed after an update would see other pairs
    order = itertools.islice(batch_order(9, 4, seed=1), 3)
    assert [batch.tolist() for batch in order] == [[6, 8, 4, 0], [1, 7, 5, 2], [2, 3, 7, 8]]
    assert (batches.BLOCK, batches.SHUFFLED) == (256, 4096)
