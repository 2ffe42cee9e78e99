"""Layers of PyTorch whose parameters are in Tern.

    node = tern.Node()
    worker = node.worker()
    embedding = tern.torch.Embedding(worker, 1_000_000, 16, name="items", update=tern.adagrad(0.1))
    loss = model(embedding(ids)).sum()
    loss.backward()                       # pushes one gradient per distinct key; AdaGrad runs where the rows are

`Embedding` and `EmbeddingBag` behave as torch's of the same name; there is no optimizer for them, since the table's
updater takes its place: `backward` pushes at once. Dense layers are kept in Tern (`Dense`), or their gradients are averaged
over the nodes at each step (`Averager`). `Loader` says ahead of time which keys are about to be used.

Tensors are on the CPU. Keys are int64, values float32.
"""

import time
from collections import deque

import numpy as np
import torch
from torch import nn

import tern
from tern import files

FOREVER = 2**63  # a clock that no worker reaches
STATE_LIMIT_BYTES = 1 << 30  # of the rows that a state_dict holds
FIRST_WAIT_S = 0.1  # that a Loader waits for the keys of its first batch,
FIRST_KEYS = 4096  # or for so many of them


def _keys(input, what):
    """Checks a tensor of keys; the memory that is used is its own, or a contiguous copy's."""
    if input.dtype != torch.int64 or input.device.type != "cpu":
        raise tern.InvalidError(f"{what}: keys are int64 on the CPU, not {input.dtype} on {input.device}")
    return input if input.is_contiguous() else input.contiguous()


def _floats(tensor, what):
    if tensor.dtype != torch.float32 or tensor.device.type != "cpu":
        raise tern.InvalidError(f"{what}: values are float32 on the CPU, not {tensor.dtype} on {tensor.device}")
    return tensor if tensor.is_contiguous() else tensor.contiguous()


class _LookUp(torch.autograd.Function):
    """Rows of keys. `anchor` is what makes torch ask for a gradient."""

    @staticmethod
    def forward(ctx, anchor, layer, input):
        out = torch.empty((*input.shape, layer.embedding_dim))
        ctx.layer = layer
        ctx.lookup = layer.worker._look_up(layer.table, input.data_ptr(), input.numel(), out.data_ptr(),
                                           layer.padding_idx)
        return out

    @staticmethod
    def backward(ctx, gradient):
        gradient = _floats(gradient, "Embedding")
        ctx.lookup.push(gradient.data_ptr(), None, int(ctx.layer.scale_grad_by_freq))
        return None, None, None


class _LookUpBags(torch.autograd.Function):
    """Sums of rows."""

    @staticmethod
    def forward(ctx, anchor, layer, input, offsets, n_bags, weights):
        out = torch.empty((n_bags, layer.embedding_dim))
        learns = weights is not None and weights.requires_grad
        ctx.layer = layer
        ctx.weights = weights
        ctx.lookup = layer.worker._look_up_bags(
            layer.table, input.data_ptr(), input.numel(), out.data_ptr(), layer.padding_idx,
            None if offsets is None else offsets.data_ptr(), n_bags,
            None if weights is None else weights.data_ptr(), int(layer.mode == "mean"), int(learns))
        return out

    @staticmethod
    def backward(ctx, gradient):
        gradient = _floats(gradient, "EmbeddingBag")
        weights, of_weights = ctx.weights, None
        ctx.lookup.push(gradient.data_ptr(), None if weights is None else weights.data_ptr(),
                        int(ctx.layer.scale_grad_by_freq))
        if weights is not None and ctx.needs_input_grad[5]:
            of_weights = torch.empty_like(weights)
            ctx.lookup.weights(gradient.data_ptr(), of_weights.data_ptr())
        return None, None, None, None, None, of_weights


class _Layer(nn.Module):
    """A table as a module."""

    def __init__(self, worker, num_embeddings, embedding_dim, padding_idx, scale_grad_by_freq, max_norm, name, table,
                 update, init, policy, memory_limit):
        super().__init__()
        if max_norm is not None:
            raise tern.InvalidError("max_norm: rows in Tern are not renormalised when they are read")
        if padding_idx is not None and num_embeddings is not None:
            if not -num_embeddings <= padding_idx < num_embeddings:
                raise tern.InvalidError(f"padding_idx: {padding_idx} is not one of {num_embeddings} keys")
            padding_idx %= num_embeddings
        self.worker = worker
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx = padding_idx
        self.scale_grad_by_freq = scale_grad_by_freq
        self.table = table or worker.node.table(
            name, keys=num_embeddings, length=embedding_dim, init=tern.normal() if init is None else init,
            update=tern.sgd(1e-2) if update is None else update, policy=policy, memory_limit=memory_limit)
        self._anchor = torch.zeros((), requires_grad=True)
        if padding_idx is not None and table is None:
            worker.set(self.table, np.array([padding_idx], np.int64), np.zeros((1, embedding_dim), np.float32))

    def extra_repr(self):
        return f"{self.num_embeddings}, {self.embedding_dim}, table={self.table.name!r}"

    def intent(self, keys, start, end):
        """Says that the keys will be used while start <= clock < end."""
        self.worker.intent(self.table, keys, start, end)

    def rows(self, keys):
        """The rows of some keys as a tensor of its own."""
        keys = _keys(keys, "rows")
        out = torch.empty((*keys.shape, self.embedding_dim))
        self.worker.pull(self.table, keys.numpy(), out.numpy())
        return out

    @property
    def weight(self):
        """All rows of a dense table, as a tensor of its own: to look at, not to train."""
        if self.num_embeddings is None:
            raise tern.InvalidError("a sparse table has no tensor of all rows; see rows()")
        return self.rows(torch.arange(self.num_embeddings))

    @torch.no_grad()
    def copy_(self, weight):
        """Sets all rows of a dense table; updaters' state begins anew."""
        weight = _floats(weight, "copy_")
        self.worker.set(self.table, np.arange(self.num_embeddings), weight.detach().numpy())

    # A state_dict holds the rows, as torch's does, while they are few enough. It never leaves them out.

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        n = self.num_embeddings
        if (n or 0) * self.embedding_dim * 4 > STATE_LIMIT_BYTES:
            raise tern.Error(f"state_dict: the rows of table {self.table.name!r} take more than {STATE_LIMIT_BYTES} bytes; "
                             f"save them with tern.files.save(worker, layer.table, 'rows.safetensors') and the other "
                             f"layers' state_dicts by themselves, or raise tern.torch.STATE_LIMIT_BYTES")
        if n is not None:
            destination[prefix + "weight"] = self.weight
            return
        keys, values, n_bytes = [], [], 0
        for some_keys, some in files.rows(self.worker, self.table):
            keys.append(some_keys.view(np.int64))
            values.append(some)
            n_bytes += some.nbytes
            if n_bytes > STATE_LIMIT_BYTES:
                raise tern.Error(f"state_dict: table {self.table.name!r} has too many rows; save them with "
                                 f"tern.files.save(worker, layer.table, 'rows.safetensors')")
        destination[prefix + "keys"] = torch.from_numpy(np.concatenate(keys) if keys else np.empty(0, np.int64))
        destination[prefix + "weight"] = torch.from_numpy(
            np.concatenate(values) if values else np.empty((0, self.embedding_dim), np.float32))

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys,
                              error_msgs):
        weight, keys = state_dict.get(prefix + "weight"), state_dict.get(prefix + "keys")
        wanted = ["weight"] if self.num_embeddings is not None else ["keys", "weight"]
        missing = [prefix + name for name in wanted if prefix + name not in state_dict]
        if missing:
            missing_keys.extend(missing)
            return
        if weight.dim() != 2 or weight.shape[1] != self.embedding_dim or \
                (keys is None and len(weight) != self.num_embeddings):
            error_msgs.append(f"size mismatch for {prefix}weight: {tuple(weight.shape)} does not fit "
                              f"({self.num_embeddings}, {self.embedding_dim})")
            return
        where = np.arange(len(weight)) if keys is None else _keys(keys, "keys").numpy()
        self.worker.set(self.table, where, _floats(weight.detach(), "weight").numpy())


class Embedding(_Layer):
    """torch.nn.Embedding with its rows in a table.

    `worker` is the calling thread's tern.Worker. `num_embeddings` None makes a sparse table, which takes any 64-bit key.
    `update` is the table's updater, which runs at each backward(): tern.sgd(), tern.adagrad() and so on. `table` uses an
    open table instead of making one. `sparse` is taken for likeness: gradients are always sparse.
    """

    def __init__(self, worker, num_embeddings, embedding_dim, padding_idx=None, max_norm=None, norm_type=2.0,
                 scale_grad_by_freq=False, sparse=True, *, name="embedding", table=None, update=None, init=None,
                 policy=None, memory_limit=0):
        super().__init__(worker, num_embeddings, embedding_dim, padding_idx, scale_grad_by_freq, max_norm, name, table,
                         update, init, policy, memory_limit)

    def forward(self, input):
        return _LookUp.apply(self._anchor, self, _keys(input, "Embedding"))


class EmbeddingBag(_Layer):
    """torch.nn.EmbeddingBag with its rows in a table: sums and means of rows, with offsets, weights and padding."""

    def __init__(self, worker, num_embeddings, embedding_dim, max_norm=None, norm_type=2.0, scale_grad_by_freq=False,
                 mode="mean", sparse=True, include_last_offset=False, padding_idx=None, *, name="embedding", table=None,
                 update=None, init=None, policy=None, memory_limit=0):
        if mode not in ("sum", "mean"):
            raise tern.InvalidError(f"mode: sum or mean, not {mode!r}")
        super().__init__(worker, num_embeddings, embedding_dim, padding_idx, scale_grad_by_freq, max_norm, name, table,
                         update, init, policy, memory_limit)
        self.mode = mode
        self.include_last_offset = include_last_offset

    def forward(self, input, offsets=None, per_sample_weights=None):
        input = _keys(input, "EmbeddingBag")
        if input.dim() == 2:
            if offsets is not None:
                raise tern.InvalidError("offsets: an input of two dimensions has a bag per row, and no offsets")
            n_bags = input.shape[0]
            if input.shape[1] == 0:
                return torch.zeros((n_bags, self.embedding_dim))
        elif input.dim() == 1 and offsets is not None:
            offsets = _keys(offsets, "offsets")
            n_bags = offsets.numel()
            if self.include_last_offset:
                if n_bags == 0 or int(offsets[-1]) != input.numel():
                    raise tern.InvalidError("offsets: the last one must be the size of the input")
                n_bags -= 1
        else:
            raise tern.InvalidError("input: two dimensions, or one dimension and offsets, are needed")
        if per_sample_weights is not None:
            if self.mode != "sum":
                raise tern.InvalidError("per_sample_weights: they go with the mode 'sum' only")
            if per_sample_weights.shape != input.shape:
                raise tern.InvalidError("per_sample_weights: they need the shape of the input")
            per_sample_weights = _floats(per_sample_weights, "per_sample_weights")
        return _LookUpBags.apply(self._anchor, self, input, offsets, n_bags, per_sample_weights)


# ---- Dense layers ----------------------------------------------------------------------------------------------------


class Dense(nn.Module):
    """Keeps the parameters of a module in Tern, cut into rows that all nodes want for good.

    `forward` reads the newest parameters and runs the module; `step`, after backward(), pushes the gradients, and the
    updater runs where the rows are. Nodes do not wait for each other. All nodes make it at the same time; they begin with
    the parameters of node 0.
    """

    def __init__(self, module, worker, update=None, name="dense", row=256, policy=None):
        super().__init__()
        self.module = module
        self.worker = worker
        self.parameters_list = [p for p in module.parameters() if p.requires_grad]
        n = sum(p.numel() for p in self.parameters_list)
        n_rows = -(-n // row) or 1
        self._flat, self._gradients = torch.zeros(n_rows, row), torch.zeros(n_rows, row)
        self._keys = np.arange(n_rows)
        at = 0
        for p in self.parameters_list:
            if p.dtype != torch.float32 or p.device.type != "cpu":
                raise tern.InvalidError("Dense: parameters are float32 on the CPU")
            place = self._flat.view(-1)[at:at + p.numel()].view_as(p)
            place.copy_(p.data)
            p.data = place
            p.grad = self._gradients.view(-1)[at:at + p.numel()].view_as(p)
            at += p.numel()
        node = worker.node
        self.table = node.table(name, keys=n_rows, length=row, policy=policy,
                                update=tern.adagrad(1e-2) if update is None else update)
        if node.index == 0:
            worker.set(self.table, self._keys, self._flat.numpy())
            worker.flush()
        node.barrier()
        worker.intent(self.table, self._keys, 0, FOREVER)
        self.pull()

    def pull(self):
        """Reads the newest parameters."""
        self.worker.pull(self.table, self._keys, self._flat.numpy())

    def forward(self, *arguments, **keywords):
        if torch.is_grad_enabled():
            self.pull()
        return self.module(*arguments, **keywords)

    def step(self):
        """Pushes the gradients and sets them to zero."""
        self.worker.push(self.table, self._keys, self._gradients.numpy())
        self._gradients.zero_()


class Averager:
    """Averages the gradients of a module over all nodes: call `average()` between backward() and the optimizer's step.

    `by` is "tern" (tern_all_reduce) or "gloo" (torch.distributed, which the program has initialised). All nodes make it at
    the same time; they begin with the parameters of node 0. All nodes call `average()` equally often: a node that has run
    out of batches calls it with gradients of zero, and takes the optimizer's step, until the others have as well.
    """

    def __init__(self, module, node, by="tern"):
        if by not in ("tern", "gloo"):
            raise tern.InvalidError(f"by: tern or gloo, not {by!r}")
        self.node, self.by = node, by
        self.parameters = [p for p in module.parameters() if p.requires_grad]
        self._flat = torch.zeros(sum(p.numel() for p in self.parameters))
        with torch.no_grad():
            torch.cat([p.data.view(-1) for p in self.parameters], out=self._flat)
            if by == "gloo":
                torch.distributed.broadcast(self._flat, 0)
            else:
                node.broadcast(self._flat.numpy())
            self._scatter([p.data for p in self.parameters])

    def _scatter(self, tensors):
        at = 0
        for tensor in tensors:
            tensor.copy_(self._flat[at:at + tensor.numel()].view_as(tensor))
            at += tensor.numel()

    @torch.no_grad()
    def average(self):
        """Replaces the gradients by their means over all nodes."""
        if self.node.count == 1:
            return
        for p in self.parameters:
            if p.grad is None:
                p.grad = torch.zeros_like(p)
        torch.cat([p.grad.view(-1) for p in self.parameters], out=self._flat)
        if self.by == "gloo":
            torch.distributed.all_reduce(self._flat)
        else:
            self.node.all_reduce(self._flat.numpy())
        self._flat /= self.node.count
        self._scatter([p.grad for p in self.parameters])


# ---- Batches to come -------------------------------------------------------------------------------------------------


class Loader:
    """Wraps an iterable of batches, such as a DataLoader: says ahead which keys are about to be used, and advances the
    worker's clock after each batch.

    `keys` is a function of a batch. It returns the keys for `layer` (an Embedding, EmbeddingBag, or a pair of worker and
    table), or, where there are several, a dict {layer: keys}. The intents are signalled `ahead` batches before they are
    used, in the training process, wherever the batches are made. The first batch waits until its keys are here, at most
    0.1 s, since nobody could ask for them earlier.
    """

    def __init__(self, batches, keys, layer=None, ahead=100):
        if ahead < 0:
            raise tern.InvalidError(f"ahead: {ahead} batches make no sense")
        self.batches, self.keys, self.layer, self.ahead = batches, keys, layer, ahead

    def __len__(self):
        return len(self.batches)

    def _intents(self, batch):
        """Yields (worker, table, keys)."""
        found = self.keys(batch)
        for layer, keys in (found.items() if isinstance(found, dict) else [(self.layer, found)]):
            if layer is None:
                raise tern.InvalidError("Loader: give the layer, or have `keys` return {layer: keys}")
            worker, table = layer if isinstance(layer, tuple) else (layer.worker, layer.table)
            if isinstance(keys, torch.Tensor):
                keys = _keys(keys, "Loader").numpy()
            yield worker, table, keys

    def _await_keys(self, batch):
        """Waits until the keys of the first batch are here; of many keys, until the first ones are."""
        deadline = time.monotonic() + FIRST_WAIT_S
        for worker, table, keys in self._intents(batch):
            if worker.node.count == 1 or not table.policy.startswith("adaptive"):
                continue
            keys = np.ascontiguousarray(keys).reshape(-1)[:FIRST_KEYS]
            while not worker.pull_if_local(table, keys)[1].all() and time.monotonic() < deadline:
                time.sleep(0.001)

    def __iter__(self):
        waiting, source, workers, is_first = deque(), iter(self.batches), {}, True
        while True:
            while len(waiting) <= self.ahead:
                try:
                    batch = next(source)
                except StopIteration:
                    source = iter(())
                    break
                for worker, table, keys in self._intents(batch):
                    workers[id(worker)] = worker
                    start = worker.clock + len(waiting)
                    worker.intent(table, keys, start, start + 1)
                waiting.append(batch)
            if not waiting:
                return
            if is_first:
                self._await_keys(waiting[0])
                is_first = False
            yield waiting.popleft()
            for worker in workers.values():
                worker.advance()
