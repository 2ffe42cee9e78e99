"""tern.nd: arrays, symbols and modules of libternnd, by ctypes; there is nothing to compile.

    from tern import nd

    a = nd.zeros((2, 3))
    a += 2
    b = nd.dot(a, a.T)
    print(b.numpy())

A call returns at once; `numpy()` waits. numpy arrays come in with `nd.array` (a copy) or `nd.wrap` (their own memory), and
go out with `numpy()`, which shows the array's memory. Every operator is a function of this module with the attributes of
docs/nd.md as keywords: `nd.sum(a, axis=0, keepdims=True)`.
"""

import ctypes
import os
import pathlib

import numpy as np

MAX_DIMS = 8
_TYPES = (np.dtype("float32"), np.dtype("float64"), np.dtype("int32"), np.dtype("int64"), np.dtype("uint8"))
_NAMES = ("f32", "f64", "i32", "i64", "u8")


class Error(Exception):
    """A call failed. `str()` gives the sentence, `status` the number of tern.h's enum tern_status."""

    def __init__(self, status, sentence):
        super().__init__(sentence)
        self.status = status


class _Shape(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("n_dims", ctypes.c_int32), ("dims", ctypes.c_int64 * MAX_DIMS)]


def _load():
    """The library: TERN_ND_LIBRARY, the one beside this file, or the system's."""
    own = pathlib.Path(__file__).with_name("libternnd.so")
    name = os.environ.get("TERN_ND_LIBRARY") or (str(own) if own.exists() else "libternnd.so.0")
    library = ctypes.CDLL(name)
    for function in ("tern_error", "tern_nd_operator", "tern_nd_gemm", "tern_nd_convolution"):
        getattr(library, function).restype = ctypes.c_char_p
    library.tern_nd_operations.restype = ctypes.c_uint64
    library.tern_nd_operator.argtypes = [ctypes.c_size_t]
    library.tern_array_read.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
    library.tern_array_apply.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t,
                                         ctypes.c_void_p]
    library.tern_array_close.argtypes = [ctypes.c_void_p]
    return library


_lib = _load()
_RELEASE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_wrapped = {}  # numpy arrays whose memory the library uses


@_RELEASE
def _release(context):
    _wrapped.pop(context, None)


def _check(status):
    if status:
        raise Error(status, _lib.tern_error().decode())


def _shape_struct(shape, dtype):
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    if len(shape) > MAX_DIMS:
        raise Error(1, f"an array has 0 to {MAX_DIMS} dimensions, not {len(shape)}")
    return _Shape(_type_number(dtype), len(shape), (ctypes.c_int64 * MAX_DIMS)(*shape))


def _type_number(dtype):
    dtype = np.dtype("uint8") if dtype is bool else np.dtype(dtype)
    if dtype not in _TYPES:
        raise Error(1, f"{dtype} is not a type of arrays: {', '.join(str(t) for t in _TYPES)}")
    return _TYPES.index(dtype)


def _text(value):
    if isinstance(value, (tuple, list)):
        return ",".join(str(int(v)) for v in value) or "()"
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, str):
        return value
    if isinstance(value, (int, np.integer)):
        return str(int(value))
    return _NAMES[_type_number(value)]


def _attributes(keywords):
    """The text of attributes that the library reads."""
    return " ".join(f"{name}={_text(value)}" for name, value in keywords.items() if value is not None).encode()


class Array:
    """Numbers of one type in up to 8 dimensions. Made by the functions of this module."""

    __slots__ = ("_handle", "__weakref__")
    __array_priority__ = 1000

    def __init__(self, handle):
        self._handle = handle

    def __del__(self):
        if _lib is not None and self._handle:
            _lib.tern_array_close(self._handle)

    @property
    def _spec(self):
        shape = _Shape()
        _check(_lib.tern_array_shape(ctypes.c_void_p(self._handle), ctypes.byref(shape)))
        return shape

    @property
    def shape(self):
        spec = self._spec
        return tuple(spec.dims[: spec.n_dims])

    @property
    def dtype(self):
        return _TYPES[self._spec.type]

    @property
    def ndim(self):
        return self._spec.n_dims

    @property
    def T(self):
        return self.transpose()

    def numpy(self):
        """Waits, and returns a numpy array of the same memory."""
        data, strides = ctypes.c_void_p(), (ctypes.c_int64 * MAX_DIMS)()
        spec = self._spec
        _check(_lib.tern_array_data(ctypes.c_void_p(self._handle), ctypes.byref(data), strides))
        dtype = _TYPES[spec.type]
        return np.asarray(_Memory(self, data.value, tuple(spec.dims[: spec.n_dims]), dtype,
                                  tuple(s * dtype.itemsize for s in strides[: spec.n_dims])))

    asnumpy = numpy

    def __array__(self, dtype=None):
        value = self.numpy()
        return value if dtype is None else value.astype(dtype)

    def item(self):
        return self.numpy().item()

    __float__ = item

    def wait(self):
        self.numpy()
        return self

    def transpose(self, axes=None):
        view = ctypes.c_void_p()
        order = (ctypes.c_int64 * MAX_DIMS)(*axes) if axes is not None else None
        if axes is not None and len(axes) != self.ndim:
            raise Error(1, f"{len(axes)} axes are given for {self.ndim} dimensions")
        _check(_lib.tern_array_transpose(ctypes.c_void_p(self._handle), order, ctypes.byref(view)))
        return Array(view.value)

    def reshape(self, *shape):
        """A copy, where this array has gaps; else a view."""
        shape = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
        view = ctypes.c_void_p()
        dims = (ctypes.c_int64 * max(1, len(shape)))(*shape)
        if len(shape) <= MAX_DIMS and _lib.tern_array_reshape(ctypes.c_void_p(self._handle), len(shape), dims,
                                                               ctypes.byref(view)) == 0:
            return Array(view.value)
        return _apply("reshape", (self,), shape=tuple(shape))

    def _view(self, key):
        """The view that an index means: integers, slices with positive steps, `...`."""
        key = key if isinstance(key, tuple) else (key,)
        shape = self.shape
        if Ellipsis in key:
            at = key.index(Ellipsis)
            key = key[:at] + (slice(None),) * (len(shape) - len(key) + 1) + key[at + 1:]
        if len(key) > len(shape):
            raise IndexError(f"{len(key)} indices for {len(shape)} dimensions")
        begin, end, step, kept = [], [], [], []
        for i, k in enumerate(key):
            if isinstance(k, slice):
                b, e, s = k.indices(shape[i])
                kept.append(True)
            else:
                b = k + shape[i] if k < 0 else k
                if not 0 <= b < shape[i]:
                    raise IndexError(f"index {k} is not in dimension {i}, which has {shape[i]} elements")
                e, s = b + 1, 1
                kept.append(False)
            begin.append(b), end.append(e), step.append(s)
        n, numbers, view = len(key), ctypes.c_int64 * max(1, len(key)), ctypes.c_void_p()
        _check(_lib.tern_array_slice(ctypes.c_void_p(self._handle), n, numbers(*begin), numbers(*end), numbers(*step),
                                     ctypes.byref(view)))
        part = Array(view.value)
        if all(kept):
            return part
        kept += [True] * (len(shape) - n)
        return _drop_axes(part, kept)

    def __getitem__(self, key):
        return self._view(key)

    def __setitem__(self, key, value):
        part = self if key is Ellipsis or key == slice(None) else self._view(key)
        part.assign(value)

    def assign(self, value):
        """Writes a value, broadcast and converted, into this array and what shares its memory."""
        value = _as_array(value, self.dtype)
        _check(_lib.tern_array_assign(ctypes.c_void_p(self._handle), ctypes.c_void_p(value._handle)))

    def astype(self, dtype):
        return _apply("cast", (self,), type=np.dtype(dtype))

    def __len__(self):
        return self.shape[0]

    def __repr__(self):
        return f"nd.{self.numpy()!r}"


class _Memory:
    """The memory of an array, for numpy."""

    def __init__(self, array, data, shape, dtype, strides):
        self._array = array
        self.__array_interface__ = {"data": (data, False), "shape": shape, "typestr": dtype.str, "strides": strides,
                                    "version": 3}


def _drop_axes(part, kept):
    """A view without the axes of one element that are not kept: numpy's memory, wrapped again."""
    value = part.numpy()
    return wrap(value.reshape([n for n, k in zip(value.shape, kept) if k]) if value.flags.c_contiguous
                else value[tuple(slice(None) if k else 0 for k in kept)])


def array(value, dtype=None):
    """A copy of anything that numpy takes. float64 lists become float32 unless `dtype` says otherwise."""
    given = isinstance(value, (np.ndarray, np.generic, Array))
    value = np.asarray(value, dtype)
    if dtype is None and not given and value.dtype == np.float64:
        value = value.astype(np.float32)
    if value.dtype == np.bool_:
        value = value.astype(np.uint8)
    value = np.asarray(value, order="C")
    handle = ctypes.c_void_p()
    _check(_lib.tern_array_new(ctypes.byref(_shape_struct(value.shape, value.dtype)), ctypes.c_void_p(value.ctypes.data),
                               ctypes.byref(handle)))
    return Array(handle.value)


def wrap(value):
    """An array in the memory of a numpy array, without a copy. Do not write the numpy array while calls are pending."""
    if any(s % value.itemsize for s in value.strides):
        raise Error(1, "the strides are no multiples of an element")
    handle, key = ctypes.c_void_p(), id(value)
    while key in _wrapped or key == 0:
        key += 1
    strides = (ctypes.c_int64 * MAX_DIMS)(*(s // value.itemsize for s in value.strides))
    _wrapped[key] = value
    status = _lib.tern_array_wrap(ctypes.byref(_shape_struct(value.shape, value.dtype)), strides,
                                  ctypes.c_void_p(value.ctypes.data), _release, ctypes.c_void_p(key), ctypes.byref(handle))
    if status:
        _wrapped.pop(key)
    _check(status)
    return Array(handle.value)


def _as_array(value, dtype):
    if isinstance(value, Array):
        return value
    if isinstance(value, (bool, int, float)) and dtype is not None:
        return _apply("constant", (), value=float(value), type=dtype)
    return array(value)


def _apply(name, inputs, **attributes):
    handles = (ctypes.c_void_p * max(1, len(inputs)))(*(x._handle for x in inputs))
    out = ctypes.c_void_p()
    _check(_lib.tern_array_apply(name.encode(), _attributes(attributes), handles, len(inputs), ctypes.byref(out)))
    return Array(out.value)


def _scalar_type(value, other):
    """The type of a Python number beside an array: the array's own, unless a fraction meets integers."""
    if isinstance(value, float) and other.kind in "iu":
        return np.dtype("float64")
    return other


def _operands(values):
    """Arrays of all operands. Python numbers take the type of the first array."""
    types = [v.dtype for v in values if isinstance(v, (Array, np.ndarray, np.generic))]
    first = types[0] if types else np.dtype("float32")
    return [_as_array(v, _scalar_type(v, first)) for v in values]


def _make_operator(name):
    def operator(*inputs, **attributes):
        return _apply(name, _operands(inputs), **attributes)

    operator.__name__ = operator.__qualname__ = name
    operator.__doc__ = f"The operator {name}: see docs/nd.md."
    return operator


def _operators():
    i = 0
    while (name := _lib.tern_nd_operator(i)) is not None:
        yield name.decode()
        i += 1


OPERATORS = tuple(_operators())


def __getattr__(name):
    """Operators are found here and not among the globals, where `sum` and `max` are Python's."""
    if name in OPERATORS:
        return _make_operator(name)
    raise AttributeError(f"tern.nd has no operator or function '{name}'")


def __dir__():
    return sorted({*globals(), *OPERATORS})


def concat(*arrays, axis=0):
    arrays = arrays[0] if len(arrays) == 1 and isinstance(arrays[0], (list, tuple)) else arrays
    return _apply("concat", _operands(arrays), axis=axis)


def zeros(shape, device=None, dtype="float32"):
    return full(shape, 0.0, device, dtype)


def ones(shape, device=None, dtype="float32"):
    return full(shape, 1.0, device, dtype)


def full(shape, value, device=None, dtype="float32"):
    """`device` is there for programs that name one: there is one device, the processor."""
    return _apply("full", (), shape=(shape,) if isinstance(shape, int) else tuple(shape), value=float(value),
                  type=np.dtype(dtype))


def cpu():
    """The device."""
    return "cpu"


# ---- Symbols -------------------------------------------------------------------------------------------------------


class Symbol:
    """An expression with free variables: a model. Made by `variable` and the operators of `tern.nd.symbol`."""

    __slots__ = ("_handle", "name")

    def __init__(self, handle, name=None):
        self._handle, self.name = handle, name

    def __del__(self):
        if _lib is not None and self._handle:
            _lib.tern_symbol_close(ctypes.c_void_p(self._handle))

    @property
    def arguments(self):
        """The names of the variables below, in the order of their use."""
        names, name = [], ctypes.c_char_p()
        while not _check(_lib.tern_symbol_argument(ctypes.c_void_p(self._handle), len(names), ctypes.byref(name))) and \
                name.value is not None:
            names.append(name.value.decode())
        return names

    def infer(self, name=None, **shapes):
        """The shape and type of a variable, or of the symbol itself, from the shapes (or arrays) of others."""
        shape = _Shape()
        _check(_lib.tern_symbol_infer(ctypes.c_void_p(self._handle), *_named_shapes(shapes),
                                      name.encode() if name else None, ctypes.byref(shape)))
        return tuple(shape.dims[: shape.n_dims]), _TYPES[shape.type]

    def to_json(self):
        text = ctypes.c_void_p()
        _check(_lib.tern_symbol_save(ctypes.c_void_p(self._handle), ctypes.byref(text)))
        try:
            return ctypes.string_at(text.value).decode()
        finally:
            _free(text)

    def save(self, path):
        pathlib.Path(path).write_text(self.to_json(), encoding="utf-8")


_free = ctypes.CDLL(None).free
_free.argtypes = [ctypes.c_void_p]


def _named_shapes(shapes):
    """n, names and shapes as the library takes them. A shape is a tuple (f32), (shape, dtype) or an array."""
    structs = []
    for value in shapes.values():
        if hasattr(value, "dtype"):
            structs.append(_shape_struct(value.shape, value.dtype))
        elif len(value) == 2 and isinstance(value[0], (tuple, list)):
            structs.append(_shape_struct(*value))
        else:
            structs.append(_shape_struct(value, "float32"))
    n = len(structs)
    return (ctypes.c_size_t(n), (ctypes.c_char_p * (n + 1))(*(name.encode() for name in shapes)),
            (_Shape * (n + 1))(*structs))


def load_symbol(text):
    """A symbol from its JSON, or from a file with it."""
    if not text.lstrip().startswith("{"):
        text = pathlib.Path(text).read_text(encoding="utf-8")
    data, handle = text.encode(), ctypes.c_void_p()
    _check(_lib.tern_symbol_load(data, ctypes.c_size_t(len(data)), ctypes.byref(handle)))
    return Symbol(handle.value)


def variable(name="data"):
    handle = ctypes.c_void_p()
    _check(_lib.tern_symbol_variable(name.encode(), ctypes.byref(handle)))
    return Symbol(handle.value, name)


def _apply_symbol(operator, inputs, name=None, **attributes):
    handles = (ctypes.c_void_p * (len(inputs) + 1))(*(x._handle for x in inputs))
    out = ctypes.c_void_p()
    _check(_lib.tern_symbol_apply(operator.encode(), _attributes(attributes), name.encode() if name else None, handles,
                                  ctypes.c_size_t(len(inputs)), ctypes.byref(out)))
    return Symbol(out.value, name)


class _Symbols:
    """`nd.symbol.exp(x)`, and the thesis' names: Variable, FullyConnected, Activation, SoftmaxOutput."""

    load = staticmethod(load_symbol)
    variable = Variable = staticmethod(variable)

    @staticmethod
    def FullyConnected(data, num_hidden, name=None):
        return _apply_symbol("fully_connected", (data,), name, hidden=num_hidden)

    @staticmethod
    def Activation(data, act_type, name=None):
        return _apply_symbol(act_type, (data,), name)

    @staticmethod
    def SoftmaxOutput(data, label=None, name=None):
        return _apply_symbol("softmax_output", (data,) if label is None else (data, label), name)

    def __getattr__(self, operator):
        if operator not in OPERATORS:
            raise AttributeError(f"there is no operator '{operator}'")
        return lambda *inputs, name=None, **attributes: _apply_symbol(operator, inputs, name, **attributes)


symbol = _Symbols()


# ---- Modules -------------------------------------------------------------------------------------------------------


class Uniform:
    """How parameters begin: uniform in [low, high)."""

    def __init__(self, low=-0.07, high=0.07):
        self.kind, self.a, self.b = b"uniform", low, high


class Normal:
    def __init__(self, mean=0.0, deviation=0.01):
        self.kind, self.a, self.b = b"normal", mean, deviation


class Xavier:
    kind, a, b = b"xavier", 0.0, 0.0


class _ModuleOptions(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("n_parameters", ctypes.c_size_t), ("predicting", ctypes.c_bool),
                ("unfused", ctypes.c_bool), ("unshared", ctypes.c_bool), ("n_tables", ctypes.c_size_t),
                ("table_names", ctypes.c_void_p), ("tables", ctypes.c_void_p)]


class Module:
    """A symbol that computes and learns. It is bound at the first forward, or by `bind`."""

    def __init__(self, symbol, device=None, *, predicting=False, fuse=True, plan=True):
        self._symbol, self._handle, self._inputs = symbol, None, []
        self._options = _ModuleOptions(ctypes.sizeof(_ModuleOptions), 0, predicting, not fuse, not plan, 0, None, None)
        self._initializer, self._optimizer, self._tables = None, None, {}

    def __del__(self):
        if _lib is not None:
            self.close()

    def close(self):
        """Also done when the module is deleted. Embeddings that it uses can be closed afterwards."""
        if self._handle:
            handle, self._handle = self._handle, None
            _lib.tern_module_close(ctypes.c_void_p(handle))

    @property
    def _h(self):
        if not self._handle:
            raise Error(1, "the module is not bound yet: call bind or forward")
        return ctypes.c_void_p(self._handle)

    def bind(self, parameters=None, tables=None, **shapes):
        """Gives the shapes of the inputs, and of parameters whose shapes cannot be inferred: tuples (f32), (shape, dtype),
        or arrays. `tables` gives the embeddings that have the weights of these names."""
        handle, parameters, self._tables = ctypes.c_void_p(), parameters or {}, dict(tables or {})
        names = (ctypes.c_char_p * (len(self._tables) + 1))(*(name.encode() for name in self._tables))
        handles = (ctypes.c_void_p * (len(self._tables) + 1))(*(table._handle for table in self._tables.values()))
        self._options.n_parameters, self._options.n_tables = len(parameters), len(self._tables)
        self._options.table_names = ctypes.cast(names, ctypes.c_void_p)
        self._options.tables = ctypes.cast(handles, ctypes.c_void_p)
        self.close()
        _check(_lib.tern_module_bind(ctypes.c_void_p(self._symbol._handle), *_named_shapes({**shapes, **parameters}),
                                     ctypes.byref(self._options), ctypes.byref(handle)))
        self._handle, self._inputs = handle.value, list(shapes)
        rows = _named_shapes(dict([*shapes.items(), ("none", (1,))][:1]))[2][0]
        self._batch = rows.dims[0] if rows.n_dims else 1
        if self._initializer:
            self.init_params(*self._initializer)
        if self._optimizer:
            self.init_optimizer(*self._optimizer)
        return self

    def init_params(self, initializer=None, seed=1):
        initializer = initializer or Xavier()
        self._initializer = (initializer, seed)
        if self._handle:
            _check(_lib.tern_module_init(self._h, initializer.kind, ctypes.c_double(initializer.a),
                                         ctypes.c_double(initializer.b), ctypes.c_uint64(seed)))

    def init_optimizer(self, optimizer="sgd", optimizer_params=(), scale=None):
        """`scale` multiplies gradients: 1 / the rows of the first input unless given."""
        self._optimizer = (optimizer, optimizer_params, scale)
        if self._handle:
            names = {"learning_rate": "rate", "momentum": "decay"}
            text = " ".join(f"{names.get(k, k)}={v!r}" for k, v in dict(optimizer_params).items())
            _check(_lib.tern_module_optimizer(self._h, optimizer.encode(), text.encode(),
                                              ctypes.c_double(1 / self._batch if scale is None else scale)))

    def forward(self, data=None, label=None, training=True, **inputs):
        """Computes the output. Labels are given as `label`, other inputs by their names."""
        given = {**({} if data is None else {"data": _as_array(data, None)}),
                 **{name: _as_array(value, None) for name, value in inputs.items()}}
        if not self._handle:
            self.bind(**given)
        arrays = [given.get(name) for name in self._inputs] + ([] if label is None else [_as_array(label, None)])
        handles = (ctypes.c_void_p * (len(arrays) + 1))(*(a._handle if a is not None else None for a in arrays))
        _check(_lib.tern_module_forward(self._h, ctypes.c_bool(training), handles, ctypes.c_size_t(len(arrays))))
        return self.output

    def backward(self):
        _check(_lib.tern_module_backward(self._h))

    def update(self):
        _check(_lib.tern_module_update(self._h))

    def _array(self, function, *arguments):
        handle = ctypes.c_void_p()
        _check(function(self._h, *arguments, ctypes.byref(handle)))
        return Array(handle.value)

    @property
    def output(self):
        return self._array(_lib.tern_module_output)

    def _names(self, function):
        names, name = [], ctypes.c_char_p()
        while not _check(function(self._h, ctypes.c_size_t(len(names)), ctypes.byref(name))) and name.value is not None:
            names.append(name.value.decode())
        return names

    @property
    def names(self):
        return self._names(_lib.tern_module_name)

    @property
    def states(self):
        """The names of the statistics of batch_norm, parameters that have no gradients."""
        return self._names(_lib.tern_module_state)

    def parameter(self, name):
        """The parameter's own memory: assigning to it changes the module."""
        return self._array(_lib.tern_module_parameter, name.encode())

    def gradient(self, name):
        return self._array(_lib.tern_module_gradient, name.encode())

    def get_params(self):
        return [self.parameter(name) for name in self.names]

    def get_gradients(self):
        return [self.gradient(name) for name in self.names]

    def memory(self):
        """Bytes between inputs and outputs: planned, and with one piece per value."""
        planned, separate = ctypes.c_uint64(), ctypes.c_uint64()
        _check(_lib.tern_module_memory(self._h, ctypes.byref(planned), ctypes.byref(separate)))
        return planned.value, separate.value

    def fit(self, iterator, epochs=1):
        for _ in range(epochs):
            _check(_lib.tern_module_fit(self._h, ctypes.c_void_p(iterator._handle)))

    def score(self, iterator):
        """The accuracy and the mean cross entropy."""
        accuracy, loss = ctypes.c_double(), ctypes.c_double()
        _check(_lib.tern_module_score(self._h, ctypes.c_void_p(iterator._handle), ctypes.byref(accuracy),
                                      ctypes.byref(loss)))
        return accuracy.value, loss.value

    def save(self, path):
        _check(_lib.tern_module_save(self._h, os.fsencode(path)))

    def load(self, path):
        _check(_lib.tern_module_load(self._h, os.fsencode(path)))


# ---- Iterators -----------------------------------------------------------------------------------------------------


def load(path, format=None):
    """An array from a file: `format` is "idx", "npy" or "csv", by default what the name says."""
    name = str(path).removesuffix(".gz")
    format = format or ("npy" if name.endswith(".npy") else "csv" if name.endswith(".csv") else "idx")
    handle = ctypes.c_void_p()
    _check(_lib.tern_array_load(os.fsencode(path), format.encode(), ctypes.byref(handle)))
    return Array(handle.value)


def _load_both(function, path):
    data, labels = ctypes.c_void_p(), ctypes.c_void_p()
    _check(function(os.fsencode(path), ctypes.byref(data), ctypes.byref(labels)))
    return Array(data.value), Array(labels.value)


def load_libsvm(path):
    """The matrix and the labels of a libsvm file."""
    return _load_both(_lib.tern_array_load_libsvm, path)


def load_cifar(path):
    """Images (n x 3 x 32 x 32, uint8) and labels of a binary file of CIFAR-10."""
    return _load_both(_lib.tern_array_load_cifar, path)


class _IteratorOptions(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("batch", ctypes.c_uint32), ("part", ctypes.c_uint32),
                ("n_parts", ctypes.c_uint32), ("seed", ctypes.c_uint64), ("drop_last", ctypes.c_bool),
                ("flips", ctypes.c_bool), ("crops", ctypes.c_uint32)]


class Iterator:
    """Batches of rows: `for data, labels, n in iterator`, where n rows are not filling. One loop is one epoch.

    `flip` mirrors half of the images, and `crop` moves them by up to so many pixels: differently in each epoch.
    """

    def __init__(self, data, labels, batch, *, seed=0, part=0, parts=1, drop_last=False, flip=False, crop=0):
        self._arrays = _as_array(data, None), _as_array(labels, None)
        options = _IteratorOptions(ctypes.sizeof(_IteratorOptions), batch, part, parts, seed, drop_last, flip, crop)
        handle = ctypes.c_void_p()
        self._handle = None
        _check(_lib.tern_iterator_open(ctypes.c_void_p(self._arrays[0]._handle), ctypes.c_void_p(self._arrays[1]._handle),
                                       ctypes.byref(options), ctypes.byref(handle)))
        self._handle = handle.value

    def __del__(self):
        if _lib is not None and self._handle:
            _lib.tern_iterator_close(ctypes.c_void_p(self._handle))

    def __iter__(self):
        data, labels, n = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint32()
        while True:
            _check(_lib.tern_iterator_next(ctypes.c_void_p(self._handle), ctypes.byref(data), ctypes.byref(labels),
                                           ctypes.byref(n)))
            if not n.value:
                return
            yield _Borrowed(data.value, self), _Borrowed(labels.value, self), n.value

    def look_ahead(self, embedding, columns, batches=4):
        """Signals which ids the columns (a range, or (first, n)) have in the next batches, so that their rows come here."""
        first, n = (columns.start, len(columns)) if isinstance(columns, range) else columns
        _check(_lib.tern_iterator_look_ahead(ctypes.c_void_p(self._handle), ctypes.c_void_p(embedding._handle),
                                             ctypes.c_uint32(first), ctypes.c_uint32(n), ctypes.c_uint32(batches)))
        self._arrays += (embedding,)

    def tell(self):
        epoch, position = ctypes.c_uint64(), ctypes.c_uint64()
        _check(_lib.tern_iterator_tell(ctypes.c_void_p(self._handle), ctypes.byref(epoch), ctypes.byref(position)))
        return epoch.value, position.value

    def seek(self, epoch, position):
        _check(_lib.tern_iterator_seek(ctypes.c_void_p(self._handle), ctypes.c_uint64(epoch), ctypes.c_uint64(position)))


class _Borrowed(Array):
    """An array of the iterator, which stays the iterator's."""

    __slots__ = ("_owner",)

    def __init__(self, handle, owner):
        super().__init__(handle)
        self._owner = owner

    def __del__(self):
        pass


# ---- Stores --------------------------------------------------------------------------------------------------------


class Node:
    """This process as a node of its job, for a program that opens several stores and embeddings. Close it last."""

    def __init__(self):
        handle = ctypes.c_void_p()
        self._handle = None
        _check(_lib.tern_node_open(None, ctypes.byref(handle)))
        self._handle = handle.value

    def close(self):
        if self._handle:
            handle, self._handle = self._handle, None
            _check(_lib.tern_node_close(ctypes.c_void_p(handle)))

    def barrier(self):
        wait_all()
        _check(_lib.tern_barrier(ctypes.c_void_p(self._handle)))

    def __enter__(self):
        return self

    def __exit__(self, failure, *_):
        if failure is None:
            self.close()


class _EmbeddingOptions(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("node", ctypes.c_void_p), ("name", ctypes.c_char_p),
                ("n_rows", ctypes.c_uint64), ("length", ctypes.c_uint32), ("rate", ctypes.c_double),
                ("deviation", ctypes.c_double), ("seed", ctypes.c_uint64)]


class Embedding:
    """A Tern table whose rows are the weights of `embedding` nodes: `module.bind(tables={"emb_weight": it}, ...)`.

    `rows=0`: any id that is not negative. Rows begin as normal numbers and learn by adagrad with `rate`.
    """

    def __init__(self, name, length, *, rows=0, rate=0.05, deviation=0.0, seed=1, node=None):
        options = _EmbeddingOptions(ctypes.sizeof(_EmbeddingOptions), node._handle if node else None, name.encode(), rows,
                                    length, rate, deviation, seed)
        handle = ctypes.c_void_p()
        self._handle, self._node = None, node
        _check(_lib.tern_embedding_open(ctypes.byref(options), ctypes.byref(handle)))
        self._handle = handle.value

    def close(self):
        if self._handle:
            _check(_lib.tern_embedding_close(ctypes.c_void_p(self._handle)))
            self._handle = None

    def __enter__(self):
        return self

    def __exit__(self, failure, *_):
        if failure is None:
            self.close()

    def accesses(self):
        """Keys that this process has pulled and pushed, and those of them that were at another node."""
        every, remote = ctypes.c_uint64(), ctypes.c_uint64()
        _check(_lib.tern_embedding_accesses(ctypes.c_void_p(self._handle), ctypes.byref(every), ctypes.byref(remote)))
        return every.value, remote.value


class _StoreOptions(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("node", ctypes.c_void_p), ("name", ctypes.c_char_p),
                ("eventual", ctypes.c_bool), ("bounded", ctypes.c_bool), ("delay", ctypes.c_uint32),
                ("backups", ctypes.c_uint32), ("rate", ctypes.c_double)]


_MERGE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p)


class Store:
    """Arrays by key that the nodes of a job share, in Tern's tables. Keys are numbers or strings.

    Pushes and pulls return at once; reading an array waits for its pull.

    By default a store is sequential: what all nodes pushed is summed and merged once, by the function of `set_updater` (at
    first: added). `eventual=True`: a push is merged at once, and nobody waits. `delay=d`: likewise, but a pull waits for all
    pushes of all nodes except those of their last d rounds. In these two, `rate` makes a push a step of sgd, else it is added.

    `backups=k`: k nodes other than node 0 may die, and the others go on (`tern run --survive`).
    """

    def __init__(self, name="store", *, eventual=False, delay=None, rate=0.0, backups=0, node=None):
        options = _StoreOptions(ctypes.sizeof(_StoreOptions), node._handle if node else None, name.encode(), eventual,
                                delay is not None, delay or 0, backups, rate)
        handle = ctypes.c_void_p()
        self._node = node
        self._handle = self._merge = self._failure = None
        self._keys = {}
        _check(_lib.tern_store_open(ctypes.byref(options), ctypes.byref(handle)))
        self._handle = handle.value

    def close(self):
        """Waits for all nodes. Raises what a push or a pull failed with, or the updater raised."""
        if self._handle:
            handle, self._handle = self._handle, None
            self._done(_lib.tern_store_close(ctypes.c_void_p(handle)))

    def __enter__(self):
        return self

    def __exit__(self, failure, *_):
        if failure is None:  # closing waits for the other nodes
            self.close()

    def set_updater(self, update):
        """`update(key, sum, value)` changes `value`. It runs at one node for each key, in a thread of the library."""

        def merge(_, key, total, value):
            try:
                update(self._keys[key], _Borrowed(total, self), _Borrowed(value, self))
                return 0
            except BaseException as failure:  # pylint: disable=broad-except
                self._failure = failure
                return _lib.tern_fail(getattr(failure, "status", 1), f"{type(failure).__name__}: {failure}".encode())

        function = _MERGE(merge)
        _check(_lib.tern_store_set_function(ctypes.c_void_p(self._handle), function, None))
        self._merge = function

    def _done(self, status):
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure
        _check(status)

    def _call(self, function, key, array):
        name = str(key).encode()
        self._keys.setdefault(name, key)
        _check(function(ctypes.c_void_p(self._handle), name, ctypes.c_void_p(array._handle)))

    def push(self, key, array):
        self._call(_lib.tern_store_push, key, array)

    def pull(self, key, array):
        """Writes the value into `array`."""
        self._call(_lib.tern_store_pull, key, array)

    def wait(self):
        """Waits until all pushes and pulls so far are done. Raises what one of them failed with, or the updater raised."""
        self._done(_lib.tern_store_wait(ctypes.c_void_p(self._handle)))


class kvstore:  # pylint: disable=invalid-name
    """`nd.kvstore.create()`, as in the thesis."""

    create = Store


# ---- The engine ----------------------------------------------------------------------------------------------------


def wait_all():
    """Waits until everything pending has been carried out."""
    _check(_lib.tern_array_wait_all())


def set_threads(n):
    _check(_lib.tern_nd_set_threads(n))


def set_fusion(on):
    _check(_lib.tern_nd_set_fusion(ctypes.c_bool(on)))


def check_nan(on=True):
    """Whether an operator that makes NaN of numbers fails. Slow; modules must be bound after this call."""
    _check(_lib.tern_nd_check_nan(ctypes.c_bool(on)))


def _binary(name):
    def forward(self, other):
        return _apply(name, _operands((self, other)))

    def backward(self, other):
        return _apply(name, _operands((other, self))) if isinstance(other, Array) else \
            _apply(name, [_as_array(other, _scalar_type(other, self.dtype)), self])

    def in_place(self, other):
        self.assign(forward(self, other))
        return self

    return forward, backward, in_place


for _symbol, _name in (("add", "add"), ("sub", "subtract"), ("mul", "multiply"), ("truediv", "divide"), ("pow", "power")):
    _forward, _backward, _in_place = _binary(_name)
    setattr(Array, f"__{_symbol}__", _forward)
    setattr(Array, f"__r{_symbol}__", _backward)
    setattr(Array, f"__i{_symbol}__", _in_place)
for _symbol, _name in (("lt", "less"), ("le", "less_equal"), ("gt", "greater"), ("ge", "greater_equal"), ("eq", "equal"),
                       ("ne", "not_equal")):
    setattr(Array, f"__{_symbol}__", _binary(_name)[0])
Array.__hash__ = object.__hash__
Array.__neg__ = lambda self: _apply("negative", (self,))
Array.__abs__ = lambda self: _apply("absolute", (self,))
Array.__matmul__ = lambda self, other: _apply("dot", (self, other))
for _name in ("sum", "mean", "max", "min", "argmax", "argmin"):
    setattr(Array, _name, _make_operator(_name))

del _name, _symbol, _forward, _backward, _in_place
