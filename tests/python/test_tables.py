"""Tables that admit, count, or take the homes of their keys from the program; options that make no sense."""

import threading

import numpy as np
import pytest
import tern


@pytest.fixture
def worker(node):
    return node.worker()


def test_a_row_is_given_to_keys_that_are_counted_often_enough(node, worker):
    table = node.table("t", length=2, admit=2, expected_keys=1000)
    keys, ones = np.array([[5, 6]]), np.ones((1, 2, 2), np.float32)
    for _ in range(2):
        worker.push(table, keys, ones)
    values, present = worker.pull_present(table, keys)
    assert values.shape == (1, 2, 2) and not values.any() and present.shape == (1, 2) and not present.any()
    worker.count(table, np.array([6]))
    worker.push(table, keys[:, 1:], ones[:, 1:])
    out = np.empty((1, 2, 2), np.float32)
    values, present = worker.pull_present(table, keys, out)
    assert values is out and present.tolist() == [[False, True]] and out[0].tolist() == [[0, 0], [1, 1]]
    assert table.stats()["dropped_keys"] == 4


def test_counts(node, worker):
    table = node.table("t", admit=10)
    worker.count(table, np.array([1, 2]), np.array([10, 11], np.uint32))
    worker.push(table, np.array([1, 2]), np.ones((2, 1), np.float32))
    assert worker.pull_present(table, np.array([1, 2, 3]))[1].tolist() == [True, True, False]
    for counts, word in [(np.array([1], np.uint32), "2 keys"), (np.array([1, 2]), "int32")]:
        with pytest.raises(ValueError, match=word):
            worker.count(table, np.array([1, 2]), counts)


def test_rows_leave_by_a_function(node, worker):
    table = node.table("t", length=2)
    keys = np.arange(100, dtype=np.uint64)
    worker.push(table, keys, np.stack([keys, keys], 1).astype(np.float32))
    assert worker.sweep(table, lambda key, row: row[0] == key and key % 4 == 0) == 25
    present = worker.pull_present(table, keys)[1]
    assert not present[::4].any() and present.sum() == 75 and table.stats()["removed_rows"] == 25

    def raises(key, row):
        raise KeyError(key)

    with pytest.raises(KeyError):
        worker.sweep(table, raises)
    with pytest.raises(tern.Error, match="cannot call Tern"):
        worker.sweep(table, lambda key, row: worker.pull(table, keys))
    with pytest.raises(ValueError, match="function"):
        worker.sweep(table, 3)
    assert worker.pull_present(table, keys)[1].sum() == 75


def test_rows_leave_by_age_and_limit(node, worker):
    old = node.table("old", evict_age=3, evict_floor=10)
    worker.push(old, np.arange(50), np.ones((50, 1), np.float32))
    for _ in range(20):
        worker.advance()
    assert old.stats()["rows"] == 10
    full = node.table("full", length=64, memory_limit=2 << 20, evict_at_limit=True)
    for start in range(0, 40_000, 1000):
        worker.push(full, np.arange(start, start + 1000), np.ones((1000, 64), np.float32))
    stats = full.stats()
    assert stats["memory_bytes"] <= 2 << 20 and stats["removed_rows"] > 30_000


def test_a_sketch_counts_any_number_of_keys(node, worker):
    table = node.table("t", dtype="int64", sketch=tern.Sketch(epsilon=0.001, delta=0.01, counters=100))
    keys = np.random.default_rng(1).zipf(1.5, 20_000).astype(np.uint64)
    worker.push(table, keys, np.ones((keys.size, 1), np.int64))
    distinct, truth = np.unique(keys, return_counts=True)
    assert (worker.pull(table, distinct)[:, 0] >= truth).all()
    heaviest, counts, errors = worker.top(table, 10)
    assert heaviest.dtype == np.uint64 and set(heaviest[:5]) == set(distinct[np.argsort(-truth)][:5])
    for key, count, error in zip(heaviest, counts, errors):
        assert count - error <= truth[distinct == key][0] <= count
    assert len(worker.top(table, 1_000_000)[0]) == 100
    with pytest.raises(ValueError, match="keys"):
        worker.top(table, 0)
    with pytest.raises(tern.Error):
        worker.top(node.table("plain"), 3)


def test_homes_of_keys():
    """Both nodes pull the same keys; only those that are at home elsewhere are remote."""
    remote = {}

    def run(i):
        placement = tern.Placement(np.arange(10), np.array([0] * 3 + [1] * 7, np.uint32))
        with tern.Node(group="homes", node=i, nodes=2) as node, node.worker() as worker:
            table = node.table("t", keys=10, length=2, policy="static", placement=placement)
            worker.pull(table, np.arange(10))
            remote[i] = table.stats()["remote_keys"]
            node.barrier()

    threads = [threading.Thread(target=run, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert remote == {0: 7, 1: 3}


@pytest.mark.parametrize("options, word", [
    ({"placement": tern.Placement(np.arange(3), np.zeros(2, np.uint32))}, "3 keys"),
    ({"placement": tern.Placement(np.arange(3), np.zeros(3))}, "int32"),
    ({"placement": tern.Placement(np.arange(3), np.full(3, 7, np.uint32))}, "node"),
    ({"placement": (1, 2)}, "Placement"),
    ({"sketch": 3}, "Sketch"),
    ({"sketch": tern.Sketch(epsilon=2.0, delta=0.1)}, "epsilon"),
    ({"admit": 1 << 32}, "admit"),
    ({"admit": 100_000}, "admit"),
    ({"hot_factor": -1.0}, "hot_factor"),
    ({"backups": 9}, "backups"),
])
def test_options_that_make_no_sense(node, options, word):
    with pytest.raises(tern.Error, match=word):
        node.table("t", keys=None if "admit" in options or "sketch" in options else 10,
                   dtype="int64", policy="multi" if "hot_factor" in options else None, **options)


def test_an_unknown_option(node):
    with pytest.raises(TypeError, match="'admitt'"):
        node.table("t", admitt=3)


def test_managing_options(node):
    node.table("a", keys=10, staleness_ms=5, max_rounds_per_s=100)
    node.table("b", keys=10, policy="multi", frequencies=np.arange(10), hot_factor=2.5)
