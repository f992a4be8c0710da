"""The direct transport: packages from text, arguments kept apart, gradients, devices, ready-made attention, errors."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import pytest
import torch

from checks.calls import Assign, Call, Describe, Load, Make, ModuleRef, Opaque, Reply
from checks.errors import StudentRaised
from checks.executor import Direct, Layout
from checks.package import Package

LAYOUT = Layout("attention", {"f": "part", "Module": "part", "g": "library"}, frozenset({"library"}))
HEADER = "import torch\nfrom torch import nn\nimport torch.nn.functional as F\n"


def direct(source: str, **others: str) -> Direct:
    sources = {"attention/part.py": HEADER + source} | {f"attention/{name}.py": text for name, text in others.items()}
    return Direct(Package(sources), LAYOUT)


def call(source: str, *args: object, **options: object) -> Reply:
    return direct(source).perform(Call("f", args, **options))  # type: ignore[arg-type]


def test_helpers_and_relative_imports_from_memory() -> None:
    helpers = "from .deep.more import TWO\ndef twice(x): return TWO * x"
    sources = {
        "attention/part.py": "from .helpers import twice\nimport attention.helpers\n"
        "def f(x):\n    from . import helpers\n    return twice(x)",
        "attention/helpers.py": helpers,
        "attention/deep/more.py": "TWO = 2",
    }
    assert Direct(Package(sources), LAYOUT).perform(Call("f", (21,))).value == 42
    assert not [name for name in sys.modules if name.split(".")[0] == "attention"]
    assert not any(isinstance(finder, Package) for finder in sys.meta_path)


def test_two_packages_live_side_by_side_and_keep_their_state() -> None:
    source = "count = 0\ndef f():\n    global count\n    count += 1\n    return count"
    one, other = direct(source), direct(source)
    assert [one.perform(Call("f")).value for _ in range(3)] == [1, 2, 3]
    assert other.perform(Call("f")).value == 1


def test_a_broken_init_costs_no_part() -> None:
    transport = direct("def f(): return 1\ndef g(): from attention import name", __init__="raise KeyError('x')")
    assert transport.perform(Call("f")).value == 1
    broken = direct("from attention import name\ndef f(): return 1", __init__="import nowhere")
    with pytest.raises(StudentRaised, match=r"attention/__init__.py was left out: it raised ModuleNotFoundError"):
        broken.perform(Call("f"))


@pytest.mark.parametrize(
    ("source", "kind", "where"),
    [
        ("def f(:\n", "SyntaxError", "attention/part.py:4"),
        ("1 / 0", "ZeroDivisionError", "attention/part.py:4"),
        ("import sys\nsys.exit(0)", "SystemExit", "attention/part.py:5"),
        ("from .nowhere import x", "ModuleNotFoundError", "attention/part.py:4"),
        ("x = 3", "MissingName", ""),
        ("class Odd(Exception):\n    def __str__(self): raise self\nraise Odd", "Odd", "attention/part.py:6"),
    ],
)
def test_a_file_that_does_not_load(source: str, kind: str, where: str) -> None:
    with pytest.raises(StudentRaised) as caught:
        call(source)
    assert (caught.value.kinds[0], caught.value.where) == (kind, where)


def test_a_missing_file() -> None:
    with pytest.raises(StudentRaised, match=r"there is no file attention/library\.py"):
        direct("").perform(Load("library"))


def test_the_students_own_line_is_named() -> None:
    with pytest.raises(StudentRaised) as caught:
        call("def f(x):\n    def inner():\n        return x.nonsense\n    return inner()", torch.ones(2))
    assert caught.value.where == "attention/part.py:6, in inner"
    assert caught.value.kinds == ("AttributeError", "Exception", "BaseException")


def test_arguments_are_copies_and_one_tensor_stays_one() -> None:
    x = torch.ones(3)
    reply = call("def f(a, b, c):\n    a += 1\n    return b is a, c is a", x, x, x.clone(), after=True)
    assert torch.equal(x, torch.ones(3))
    assert reply.value == (True, False)
    assert [each.tolist() for each in reply.after] == [[2, 2, 2], [2, 2, 2], [1, 1, 1]]


def test_layout_in_memory_survives() -> None:
    assert call("def f(x): return x.is_contiguous()", torch.ones(2, 3).T).value is False


def test_gradients_of_arguments_and_parameters() -> None:
    source = "class Module(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.W_q = nn.Linear(2, 2)\n"
    source += "        self.spare = nn.Parameter(torch.ones(1))\n    def forward(self, x, y=None): return self.W_q(x) + y"
    transport = direct(source)
    made = transport.perform(Make("Module", weights={"W_q": torch.tensor([[1.0, 2], [3, 4]])}, dtype=torch.float64))
    assert made.parameters == {"spare": (1,), "W_q.weight": (2, 2), "W_q.bias": (2,)}
    x, y = torch.tensor([[1.0, 1]]).double(), torch.zeros(1, 2).double()
    request = Call("forward", (x,), {"y": y}, module=made.module, upstream=(torch.tensor([[1.0, 10]]),))
    reply = transport.perform(request)
    assert reply.value.tolist() == [[3, 7]], "the bias is set to zero"
    assert reply.gradients["arg0"].tolist() == [[31, 42]]  # type: ignore[union-attr]
    assert reply.gradients["y"].tolist() == [[1, 10]]  # type: ignore[union-attr]
    assert reply.gradients["W_q.weight"].tolist() == [[1, 1], [10, 10]]  # type: ignore[union-attr]
    assert reply.gradients["spare"] is None


def test_no_gradient_where_there_is_no_graph() -> None:
    reply = call("def f(x): return x.detach() * 2", torch.ones(2), upstream=(torch.ones(2),))
    assert reply.gradients == {"arg0": None}
    assert call("def f(x): return x.sum()", torch.ones(2), upstream=(torch.ones(2),)).gradients == {}


@pytest.mark.parametrize(
    ("body", "foreign"),
    [
        ("x.masked_fill(torch.ones(3, 3).triu().bool(), 0)", True),
        ("x.clone().masked_fill_(torch.ones(3, 3).bool(), 0)", True),
        ("x @ torch.ones(3, 3)", True),
        ("x + torch.arange(3)", True),
        ("torch.softmax(x, -1) / torch.tensor(3.0)", False),
        ("x[torch.arange(2)]", False),
        ("x.masked_fill(torch.ones(3, 3, device=x.device).bool(), 0) * 3**0.5", False),
        ("x if x.sum() > 0 else -x", False),
        ("x.sum().item()", False),
        ("x[x > 0]", False),
    ],
)
def test_devices_are_compared_on_meta(body: str, foreign: bool) -> None:
    reply = call(f"def f(x): return {body}", torch.ones(3, 3), device="meta")
    assert bool(reply.foreign) is foreign, reply
    if foreign:
        assert "attention/part.py:4" in reply.foreign[0]


def test_plain_numbers_leave_as_they_are_and_numpys_floats_with_them() -> None:
    reply = call("import numpy as np\ndef f(): return 2, True, np.float64(0.5), float('nan'), np.int64(3), 10**300, 10**400")
    two, flag, half, nan, *others = reply.value
    assert (two, flag, half) == (2, True, 0.5)
    assert [type(each) for each in (two, flag, half, nan)] == [int, bool, float, float]
    assert others == [Opaque("int64"), 10**300, Opaque("int, 1329 bits long")]


def test_a_result_of_another_device_is_told() -> None:
    assert call("def f(x): return x, torch.ones(3)", torch.ones(3), device="meta").value == ("meta", "cpu")


@pytest.mark.parametrize(
    "body",
    [
        "F.scaled_dot_product_attention(x, x, x)",
        "torch._C._nn.scaled_dot_product_attention(x, x, x)",
        "torch.ops.aten.scaled_dot_product_attention(x, x, x)",
        "nn.MultiheadAttention(4, 2, batch_first=True)(x, x, x)[0]",
        "nn.MultiheadAttention(4, 2, batch_first=True).eval()(x, x, x, need_weights=False)[0]",
        "nn.TransformerEncoderLayer(4, 2, 8, batch_first=True).eval()(x)",
        "torch._safe_softmax(x, -1)",
    ],
)
def test_ready_made_attention_is_refused_where_it_is_not_allowed(body: str) -> None:
    source = HEADER + f"def f(x):\n    with torch.no_grad():\n        return {body}\n"
    with pytest.raises(StudentRaised, match="is ready-made attention") as caught:
        direct(source).perform(Call("f", (torch.ones(2, 3, 4),)))
    assert caught.value.kinds[0] == "ReadyMadeAttention"
    assert "attention/part.py:9" in caught.value.where
    allowed = direct("", library=source.replace("def f", "def g"))
    assert allowed.perform(Call("g", (torch.ones(2, 3, 4),))).value.shape == (2, 3, 4)


def test_a_substitute_may_call_ready_made_attention_and_is_not_watched() -> None:
    own = HEADER + "from .other import helped\ndef f(x): return helped(x) + {}"
    other = HEADER + "def helped(x): return F.scaled_dot_product_attention(x, x, x) + 1"
    layout = replace(LAYOUT, substitutes=frozenset({"other"}))

    def perform(more: str, **options: Any) -> Reply:
        package = Package({"attention/part.py": own.format(more), "attention/other.py": other})
        return Direct(package, layout).perform(Call("f", (torch.ones(2, 3, 4),), **options))

    assert perform("0", count=True).operations == ("aten.add",)
    with pytest.raises(StudentRaised, match="is ready-made attention") as caught:
        perform("F.scaled_dot_product_attention(x, x, x)")
    assert "attention/part.py" in caught.value.where


def test_what_leaves() -> None:
    source = "from collections import namedtuple\nP = namedtuple('P', 'a b')\n"
    source += "def f(x): return P(x, [1, 2.5]), {}, object(), torch.ones(2).to_sparse(), 1j, nn.Parameter(x), 'text', None"
    pair, *others, parameter, text, nothing = call(source, torch.ones(2)).value
    assert pair[1] == (1, 2.5)
    assert all(isinstance(each, Opaque) for each in others)
    assert type(parameter) is torch.Tensor
    assert not parameter.requires_grad
    assert (text, nothing) == ("text", None)


def test_prints_are_kept() -> None:
    transport = direct("print('loading')\ndef f(): print('calling')")
    transport.perform(Call("f"))
    assert transport.printed == "loading\ncalling\n"


def test_integers_of_a_module() -> None:
    source = "class Module(nn.Module):\n    width = property(lambda self: 7)\n    bad = property(lambda self: 1 / 0)\n"
    source += (
        "    def __init__(self, n):\n        super().__init__()\n        self.num_heads, self.flag, self.share = n, True, 0.5"
    )
    assert direct(source).perform(Make("Module", (4,))).attributes == {"num_heads": 4, "width": 7, "flag": 1, "training": 1}


def test_modules_go_by_their_number() -> None:
    source = "class Module(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    source += "        self.inner = nn.Linear(2, 2, bias=False)\n"
    source += "def f(module, again=None):\n    with torch.no_grad():\n        module.inner.weight.fill_(3)\n"
    source += "    return module.inner, module, again is module"
    transport = direct(source)
    made = transport.perform(Make("Module"))
    assert made.module is not None
    request = Call("f", (ModuleRef(made.module),), {"again": ModuleRef(made.module)})
    inner, same, again = transport.perform(request).value
    assert (inner.kinds[:2], same.index, again) == (("Linear", "Module"), made.module, True)
    transport.perform(Assign(inner.index, {"weight": torch.tensor([[1.0, 2], [3, 4]])}))
    told = transport.perform(Describe(made.module))
    assert told.state["inner.weight"].tolist() == [[1, 2], [3, 4]]
    assert told.attributes["training"] == 1
    with pytest.raises(StudentRaised, match="KeyError"):
        transport.perform(Assign(inner.index, {"bias": torch.zeros(2)}))


def test_what_is_observed_of_a_call() -> None:
    source = "def f(x):\n    many = torch.zeros(1).expand(1000)\n    return torch.outer(x, x).sum() + many[0]\n"
    library = "from torch.nn.functional import scaled_dot_product_attention as a\ndef g(x): return a(x, x, x)\n"
    reply = call(source, torch.rand(7), count=True)
    assert reply.largest == 49, "what expand repeats is not in memory"
    assert reply.operations
    assert call(source, torch.rand(7)).largest == 0
    used = direct("", library=HEADER + library).perform(Call("g", (torch.rand(2, 3, 4),), count=True))
    assert used.ready_made == ("scaled_dot_product_attention",)


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("return torch.zeros(3, 4).copy_(x)", "copy_ at attention/part.py:5"),
        ("return x + torch.ones(4)", "add at attention/part.py:5"),
        ("return torch.empty_like(x).copy_(torch.ones(3, 4))", None),
        ("return nn.Linear(4, 4, device=x.device)", None),
    ],
)
def test_what_is_made_on_the_cpu_is_seen_on_another_device(body: str, told: str | None) -> None:
    reply = call(f"def f(x):\n    {body}\n", torch.rand(3, 4), device="meta")
    assert reply.foreign == ((told,) if told else ())
    if told is None:
        assert reply.value == "meta"


def test_gradients_that_were_switched_off_are_on_again_in_the_next() -> None:
    off = direct("def f(x):\n    torch.set_grad_enabled(False)\n    return 2 * x\n")
    assert off.perform(Call("f", (torch.rand(2),), upstream=(torch.ones(2),))).gradients == {"arg0": None}
    after = call("def f(x): return 2 * x", torch.rand(2), upstream=(torch.ones(2),)).gradients["arg0"]
    assert after is not None
    assert after.tolist() == [2, 2]
