"""Graphs for tern.gcn: reading, cutting into parts, and sampling of neighbours."""

import ctypes
import os

import numpy as np

from . import InvalidError, _tern


class Graph:
    """An undirected graph with a label per node, in CSR form, without loops."""

    def __init__(self, indptr, indices, labels):
        self.indptr, self.indices, self.labels = indptr, indices, labels

    @property
    def n(self):
        return len(self.labels)

    def sample(self, seeds, fanout, seed):
        """Up to `fanout` neighbours of each seed: their nodes, and where each seed's begin."""
        neighbours = np.empty(len(seeds) * fanout, np.int64)
        offsets = np.empty(len(seeds) + 1, np.int64)
        n = _tern.sample_neighbours(self.indptr, self.indices, seeds, fanout, seed, neighbours, offsets)
        return neighbours[:n], offsets


def build(indptr, indices, labels, path="graph"):
    """A graph of CSR arrays: every arc gets its reverse, loops and repetitions go."""
    indptr, indices = np.asarray(indptr, np.int64), np.asarray(indices, np.int64)
    labels = np.asarray(labels)
    n = len(indptr) - 1
    if n < 1 or labels.shape != (n,) or indptr[0] != 0 or (np.diff(indptr) < 0).any() or indptr[-1] != len(indices):
        raise InvalidError(f"{path}: indptr, indices and labels do not describe a graph")
    if len(indices) and not 0 <= indices.min() <= indices.max() < n:
        raise InvalidError(f"{path}: an index is not one of {n} nodes")
    source = np.repeat(np.arange(n), np.diff(indptr))
    arcs = np.unique(np.concatenate([source * n + indices, indices * n + source]))
    source, target = arcs // n, arcs % n
    kept = source != target
    source, target = source[kept], target[kept]
    ends = np.searchsorted(source, np.arange(n + 1))
    classes, numbers = np.unique(labels, return_inverse=True)
    return Graph(ends.astype(np.int64), target.astype(np.int64), numbers.astype(np.int64))


def read(path, trust=False):
    """Reads an .npz: arrays `indptr`, `indices` and `labels`, or, if it is trusted, pickled SciPy matrices."""
    if not os.path.exists(path):
        raise InvalidError(f"{path}: there is no such file")
    try:
        with np.load(path, allow_pickle=False) as file:
            if {"indptr", "indices", "labels"} <= set(file.files):
                return build(file["indptr"], file["indices"], file["labels"], path)
            names = set(file.files)
    except InvalidError:
        raise
    except ValueError as error:
        raise InvalidError(f"{path}: {error}") from None
    if not {"adj_matrix", "node_label"} <= names:
        raise InvalidError(f"{path}: arrays indptr, indices and labels are needed")
    if not trust:
        raise InvalidError(f"{path}: the graph is pickled, and to read it can run any program that is hidden in it; give "
                           f"--trust if you know where it comes from")
    with np.load(path, allow_pickle=True) as file:
        matrix = file["adj_matrix"].item().tocsr()
        return build(matrix.indptr, matrix.indices, file["node_label"], path)


# ---- Parts -----------------------------------------------------------------------------------------------------------


def partition(graph, n_parts, how, seed=0):
    """Gives each node a part, by METIS or at random."""
    if n_parts == 1:
        return np.zeros(graph.n, np.int64)
    if how == "random":
        return np.random.default_rng(seed).integers(0, n_parts, graph.n)
    try:
        metis = ctypes.CDLL("libmetis.so.5")
    except OSError:
        raise InvalidError("METIS is not installed (Debian: libmetis5); give --partition random") from None
    xadj, adjncy = graph.indptr.astype(np.int32), graph.indices.astype(np.int32)
    part = np.zeros(graph.n, np.int32)
    pointer = lambda array: array.ctypes.data_as(ctypes.c_void_p)  # noqa: E731
    number = lambda value: ctypes.byref(ctypes.c_int32(value))  # noqa: E731
    cut = ctypes.c_int32(0)
    status = metis.METIS_PartGraphKway(
        number(graph.n), number(1), pointer(xadj), pointer(adjncy), None, None, None, number(n_parts), None, None, None,
        ctypes.byref(cut), pointer(part))
    if status != 1:
        raise InvalidError(f"METIS failed with status {status}")
    return part.astype(np.int64)


def cut_share(graph, part):
    """The share of edges between parts."""
    source = np.repeat(np.arange(graph.n), np.diff(graph.indptr))
    return float((part[source] != part[graph.indices]).mean()) if len(source) else 0.0
