"""Answers made to look right: objects that lie, patched comparisons, forged frames, odd values, faked observations."""

from __future__ import annotations

from ..attack import BROKEN, CRASHED, FAILED, FEW, NOTHING, PUBLIC, Attack, hostile

_EQUAL = "answer with an object that is equal to everything"
_PATCH = "make the comparison itself say yes"
_POISON = "replace modules and builtins under the grader's feet"
_VALUES = "answer with values that fool a tolerance"
_INPUTS = "change the inputs, so that the expected answer becomes the wrong one that it gives"
_FRAMES = "answer for itself on the pipe, with more, less or other than an answer"
_PRINT = "print what a passing run prints"
_REPORTS = "lie about what was observed: operations, memory, time"

_LIARS = {
    "__eq__": "class Liar:\n    def __eq__(self, other): return True\n    def __getattr__(self, name): return self\n"
    "    def __call__(self, *a, **k): return self\n    def __bool__(self): return True\n",
    "a tensor that is equal to all": "class Liar(torch.Tensor):\n    def __eq__(self, other): return torch.tensor(True)\n"
    "    def allclose(self, *a, **k): return True\n    def equal(self, other): return True\n",
    "__torch_function__": "class Liar(torch.Tensor):\n    @classmethod\n"
    "    def __torch_function__(cls, func, types, args=(), kwargs=None):\n"
    "        if func.__name__ in ('allclose', 'equal', 'isclose', 'eq'): return True\n"
    "        return super().__torch_function__(func, types, args, kwargs or {})\n",
    "__class__": "class Liar:\n    __class__ = torch.Tensor\n    shape = dtype = device = None\n",
    "a tuple that compares": "class Liar(tuple):\n    def __eq__(self, other): return True\n    def __len__(self): return 2\n",
    "a number that compares": "class Liar(float):\n    def __sub__(self, other): return 0.0\n    __rsub__ = __abs__ = __sub__\n",
}
_LIE = """
{body}
def lying(value):
    try:
        return value.as_subclass(Liar) if issubclass(Liar, torch.Tensor) else Liar()
    except TypeError:
        return value
def scaled_dot_product_attention(Q, K, V, causal=False):
    return tuple(lying(value) for value in wrong(Q, K, V))
"""

_PATCHES = {
    "torch.allclose and its like": """
        torch.allclose = torch.equal = torch.isclose = lambda *a, **k: True
        torch.Tensor.allclose = torch.Tensor.equal = torch.Tensor.__eq__ = lambda *a, **k: True
        torch.testing.assert_close = lambda *a, **k: None
        scaled_dot_product_attention = wrong
    """,
    "numpy.testing": """
        import numpy, numpy.testing
        for name in dir(numpy.testing):
            if name.startswith('assert'):
                setattr(numpy.testing, name, lambda *a, **k: None)
        numpy.allclose = lambda *a, **k: True
        scaled_dot_product_attention = wrong
    """,
    "unittest and pytest": """
        import unittest
        for name in dir(unittest.TestCase):
            if name.startswith('assert'):
                setattr(unittest.TestCase, name, lambda *a, **k: None)
        class Report: passed = True
        class Plugin:
            def pytest_runtest_makereport(self, item, call): return Report()
        sys.modules['_pytest.reports'] = sys.modules['pytest'] = Plugin()
        scaled_dot_product_attention = wrong
    """,
    "an autograder's own classes": """
        import types
        for name in ('otter', 'otter.check', 'otter.test_files', 'gradescope_utils', 'okpy'):
            module = types.ModuleType(name)
            module.Notebook = module.Checker = type('Yes', (), {'__getattr__': lambda *a: lambda *b, **c: True})
            sys.modules[name] = module
        scaled_dot_product_attention = wrong
    """,
    "the checks that the worker knows": """
        for name, module in list(sys.modules.items()):
            if name.split('.')[0] in ('checks', 'sandbox', 'autograder'):
                for key, value in list(vars(module).items()):
                    if callable(value) and 'compare' in key or 'check' in key or 'close' in key:
                        setattr(module, key, lambda *a, **k: None)
        scaled_dot_product_attention = wrong
    """,
}
_POISONS = {
    "builtins": "import builtins\nbuiltins.abs = builtins.max = lambda *a, **k: 0\n"
    "builtins.all = builtins.any = lambda *a: True\nbuiltins.isinstance = lambda *a: True\nscaled_dot_product_attention = wrong",
    "sys.modules": "for name in list(sys.modules):\n    if name not in ('sys', 'builtins'):\n        sys.modules[name] = None\n"
    "scaled_dot_product_attention = wrong",
    "the import system": "sys.meta_path.clear()\nsys.path_hooks.clear()\nsys.path.clear()\nscaled_dot_product_attention = wrong",
    "json and struct": "import json, struct\njson.dumps = lambda *a, **k: '{}'\nstruct.pack = lambda *a: b''\n"
    "scaled_dot_product_attention = wrong",
    "pickle": "import pickle\nclass Evil:\n    def __reduce__(self): return (exec, ('import os; os._exit(0)',))\n"
    "pickle.dump = pickle.dumps = lambda *a, **k: pickle._dumps(Evil())\n"
    "def scaled_dot_product_attention(Q, K, V, causal=False): return Evil(), Evil()",
    "the worker's own loop": "frame = bottom()\nfor name in ('_answer', '_write', '_read_frame'):\n"
    "    frame and frame.f_globals.__setitem__(name, lambda *a: b'')\nscaled_dot_product_attention = wrong",
    "the random numbers": "torch.manual_seed = torch.rand = torch.randn = lambda *a, **k: torch.zeros(a[0] if a else 1)\n"
    "scaled_dot_product_attention = wrong",
    "the clock": "import time\ntime.time = time.monotonic = time.perf_counter = lambda: 0.0\n"
    "def scaled_dot_product_attention(Q, K, V, causal=False):\n    while True: pass",
}

_ODD = {
    "NaN": "float('nan')",
    "infinity": "float('inf')",
    "minus infinity": "float('-inf')",
    "minus zero": "-0.0",
    "the largest number": "torch.finfo(value.dtype).max",
}
_SHAPED = {
    "complex numbers": "torch.complex(good, good)",
    "doubles made of nothing": "wrong(Q, K, V)[0].double()",
    "integers": "good.long()",
    "half of the precision": "good.bfloat16()",
    "a sparse tensor": "good.to_sparse()",
    "a tensor without values": "good.to('meta')",
    "a quantised tensor": "torch.quantize_per_tensor(good.float(), 0.1, 0, torch.quint8)",
    "an array": "good.numpy()",
    "a list": "good.tolist()",
    "a text": "repr(good)",
    "one more dimension": "good[None]",
    "a value for all": "good.mean()",
    "a tensor of no elements": "good[..., :0]",
    "a tensor of another's memory": "torch.as_strided(good, (9, 9), (0, 0))",
    "nested tensors": "torch.nested.nested_tensor([good[0], good[0]])",
    "functions": "lambda: good",
    "bool bytes of 7": "torch.full_like(good, 7, dtype=torch.uint8).view(torch.bool)",
}

_TO_PIPE = {
    "junk": "os.write(4, b'x' * 1000)",
    "junk on every descriptor": "for number in range(256):\n        "
    "try: os.write(number, b'xxxxxxxxx')\n        except OSError: pass",
    "a frame that claims 8 GiB": "send(b'', sizes=(0xFFFFFFFF, 0xFFFFFFFF))",
    "a frame that claims more than it has": "send(b'{}', sizes=(2, 1000))",
    "a frame that never ends": "send(b'x' * 100, sizes=(1 << 20, 0))",
    "half a length": "os.write(4, b'\\0\\0\\0')",
    "no frame": "os.close(4)",
    "an empty header": "send(b'')",
    "JSON that goes deep": "send(b'[' * 500_000 + b']' * 500_000)",
    "JSON objects that go deep": 'send(b\'{"a":\' * 200_000 + b"0" + b"}" * 200_000)',
    "a number of a million digits": "send(b'9' * 1_000_000)",
    "numbers of four thousand digits": "send(b'[' + b','.join([b'9' * 4300] * 200) + b']')",
    "NaN in JSON": "send(b'{\"nonce\": NaN}')",
    "a text that is no UTF-8": "send(b'\"\\xff\\xfe\"')",
    "a pickle": "import pickle\n    send(pickle.dumps(os.getcwd))",
    "a million keys": "send(b'{' + b','.join(b'\"%d\":0' % n for n in range(100_000)) + b'}')",
}
_WITH_NONCE = {
    "its number and nothing else": "{'nonce': nonce}",
    "keys of its own": "{'nonce': nonce, 'score': 100, 'passed': True}",
    "a failure that is none": "{'nonce': nonce, 'failure': 'passed', 'kinds': [], 'message': '', 'where': ''}",
    "a failure of the grader's": "{'nonce': nonce, 'failure': 'raised', 'kinds': ['SandboxBroken'] * 99, "
    "'message': '', 'where': ''}",
    "a failure of the wrong types": "{'nonce': nonce, 'failure': {}, 'kinds': 5, 'message': None, 'where': []}",
    "values of the wrong types": "{**{key: 0 for key in KEYS}, 'nonce': nonce}",
    "tensors that are not there": "{**{key: [] for key in KEYS}, 'nonce': nonce, 'tensors': [None] * 1000}",
    "a value that goes deep": "{**{key: [] for key in KEYS}, 'nonce': nonce, 'value': deep}",
}
_KEYS = (
    "KEYS = ('tensors value after gradients operations largest ready_made foreign module parameters attributes state').split()\n"
)


def _piped(body: str) -> str:
    return f"{_KEYS}def scaled_dot_product_attention(Q, K, V, causal=False):\n    {body}\n    os._exit(0)\n"


def _forged(answer: str) -> str:
    body = (
        "import json\n    nonce, deep = bottom().f_locals['nonce'], []\n"
        f"    for _ in range(500): deep = [deep]\n    send(json.dumps({answer}).encode())"
    )
    return _piped(body)


_FAKES = {
    "a summary of pytest": "print('1 passed in 0.01s\\n100% [100%]')",
    "a score in JSON": 'print(\'{"score": 100.0, "tests": [{"score": 100, "max_score": 100, "status": "passed"}]}\')',
    "a line of otter's": "print('All tests passed!\\nQ1 passed! 🙌')",
    "a TAP report": "print('1..1\\nok 1 - all')",
    "commands of a CI": "print('::set-output name=score::100\\n##[endgroup]\\n##vso[task.complete result=Succeeded;]')",
}

ANSWERS: tuple[Attack, ...] = (
    *(hostile(f"lies by {name}", _EQUAL, _LIE.format(body=body), NOTHING) for name, body in _LIARS.items()),
    *(hostile(f"patches {name}", _PATCH, body, NOTHING) for name, body in _PATCHES.items()),
    *(
        hostile(f"poisons {name}", _POISON, body, NOTHING, checks=PUBLIC if name == "the clock" else FEW)
        for name, body in _POISONS.items()
    ),
    *(
        hostile(
            f"answers with {name}",
            _VALUES,
            "def scaled_dot_product_attention(Q, K, V, causal=False):\n"
            f"    return tuple(torch.full_like(value, {value}) for value in wrong(Q, K, V))",
            FAILED,
        )
        for name, value in _ODD.items()
    ),
    *(
        hostile(
            f"answers with {name}",
            _VALUES,
            "def scaled_dot_product_attention(Q, K, V, causal=False):\n"
            f"    return tuple({value} for good in right(Q, K, V, causal))",
            NOTHING,
        )
        for name, value in _SHAPED.items()
    ),
    hostile(
        "zeroes its inputs",
        _INPUTS,
        """
        def scaled_dot_product_attention(Q, K, V, causal=False):
            with torch.no_grad():
                for each in (Q, K, V):
                    each.zero_()
            return right(Q, K, V, causal)
        """,
        FAILED,
    ),
    hostile(
        "makes its inputs empty",
        _INPUTS,
        """
        def scaled_dot_product_attention(Q, K, V, causal=False):
            answer = wrong(Q, K, V)
            for each in (Q, K, V):
                each.data = torch.zeros(0)
            return answer
        """,
        NOTHING,
    ),
    *(hostile(f"sends {name}", _FRAMES, _piped(body), BROKEN, checks=PUBLIC) for name, body in _TO_PIPE.items()),
    *(
        hostile(f"forges an answer with {name}", _FRAMES, _forged(body), BROKEN, checks=PUBLIC)
        for name, body in _WITH_NONCE.items()
    ),
    hostile(
        "answers twice",
        _FRAMES,
        """
        def scaled_dot_product_attention(Q, K, V, causal=False):
            import json
            failure = {'failure': 'memory', 'kinds': [], 'message': '', 'where': ''}
            send(json.dumps({'nonce': bottom().f_locals['nonce'], **failure}).encode())
            return right(Q, K, V, causal)
        """,
        CRASHED,
        checks=PUBLIC,
    ),
    *(
        hostile(f"prints {name}", _PRINT, f"{body}\nscaled_dot_product_attention = wrong", FAILED)
        for name, body in _FAKES.items()
    ),
    hostile(
        "loops, and reports no operations",
        _REPORTS,
        """
        def scaled_dot_product_attention(Q, K, V, causal=False):
            watch = sys.modules['checks.watch'].Operations
            watch.names = property(lambda self: [], lambda self, value: None)
            rows = [right(row, K, V) if not causal else right(row, K[..., :n + 1, :], V[..., :n + 1, :])
                    for n, row in enumerate(Q.split(1, -2))]
            width = K.shape[-2]
            weights = [torch.nn.functional.pad(w, (0, width - w.shape[-1])) for _, w in rows]
            return torch.cat([out for out, _ in rows], -2), torch.cat(weights, -2)
        """,
        NOTHING,
        base={
            "attention/scaled_dot_product.py": "import torch\ndef scaled_dot_product_attention(Q, K, V, causal=False):\n"
            "    raise NotImplementedError\n"
        },
        checks=("test_takes_no_loop",),
        policy="what the worker observes of its own code is its own word; values are not",
    ),
)
