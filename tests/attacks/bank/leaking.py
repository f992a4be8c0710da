"""Carrying hidden inputs out in what a student reads, and making a report show something else than it says."""

from __future__ import annotations

from ..attack import FAILED, FEW, NOTHING, RAISED, RIGHT, Attack, hostile

_OUT = "carry hidden inputs out in an exception, in what it prints, or in a place in a file"
_SPOOF = "make a report show something else, or run something in the reader's browser or terminal"
MARK = "HIDDENINPUT"

_CARRY = {
    "an exception's message": "raise ValueError(seen)",
    "an exception's class": "raise type(seen, (Exception,), {})()",
    "a qualified name": "kind = type('E', (Exception,), {})\n    kind.__qualname__ = kind.__name__ = seen\n    raise kind",
    "a base class's name": "raise type('E', (type(seen, (Exception,), {}),), {})()",
    "a file's name": "exec(compile('raise ValueError', seen, 'exec'))",
    "a file's name that looks like a student's": "exec(compile('raise ValueError', 'attention/' + seen + '.py', 'exec'))",
    "a function's name": "f = lambda: 1 / 0\n    f.__code__ = f.__code__.replace(co_name=seen, co_filename=__file__)\n    f()",
    "a line number": "exec(compile('\\n' * 77_000 + 'raise ValueError', __file__, 'exec'))",
    "a chain of exceptions": "try: raise ValueError(seen)\n    except ValueError as error: raise KeyError(seen) from error",
    "notes": "error = ValueError()\n    error.add_note(seen)\n    raise error",
    "a group": "raise ExceptionGroup(seen, [ValueError(seen)])",
    "what it prints": "print(seen)\n    sys.stderr.write(seen)\n    os.write(1, seen.encode())\n    return wrong(Q, K, V)",
    "warnings": "import warnings\n    warnings.warn(seen)\n    return wrong(Q, K, V)",
    "the name of a type": "return type(seen, (), {})(), None",
    "a text": "return seen, seen",
    "a shape": "return torch.zeros(77_001, 3), torch.zeros(77_001)",
    "SyntaxError": "raise SyntaxError(seen, (seen, 77_001, 1, seen))",
    "an import": "import importlib\n    importlib.import_module(seen)",
    "its last words": "print(seen, flush=True)\n    os._exit(77)",
    "a missing file": "raise ModuleNotFoundError('there is no file ' + seen)",
    "a stub's words": "raise NotImplementedError(seen)",
}
_CARRIER = """
def scaled_dot_product_attention(Q, K, V, causal=False):
    seen = '{mark}' + str(int(Q.double().abs().sum() * 1e6))
    {body}
"""

_SHOW = {
    "terminal escapes": r"'\x1b[2J\x1b[31mred\x1b]0;title\x07\x9b31m'",
    "HTML": "'<script>alert(1)</script><img src=x onerror=alert(1)>'",
    "Markdown": "'# Score: 100\\n[click](javascript:alert(1)) ![x](http://192.0.2.1/x.png)'",
    "the direction of writing": r"'\u202e100 erocs\u2066\u200b'",
    "carriage returns": r"'failed\rpassed\x08\x08\x7f'",
    "null bytes": r"'\x00\x00'",
    "half a character": r"'\ud800'",
    "ten megabytes": "'x' * 10_000_000",
    "a formula": "'=HYPERLINK(\"http://192.0.2.1\")'",
}
_SPOOFER = """
text = {text}
def scaled_dot_product_attention(Q, K, V, causal=False):
    for write in (print, sys.stderr.write, lambda t: os.write(2, t.encode('utf-8', 'surrogatepass')[:1000])):
        try:
            write(text)
        except Exception:
            pass
    raise type('E' + text[:150].replace(chr(0), '').encode('utf-8', 'ignore').decode(), (ValueError,), {{}})(text)
"""

LEAKING: tuple[Attack, ...] = (
    *(
        hostile(
            f"leaks by {name}",
            _OUT,
            _CARRIER.format(mark=MARK, body=body),
            NOTHING,
            base=RIGHT,
            checks=FEW,
            never=(MARK, "77000", "77001"),
        )
        for name, body in _CARRY.items()
    ),
    *(hostile(f"shows {name}", _SPOOF, _SPOOFER.format(text=text), RAISED | FAILED | NOTHING) for name, text in _SHOW.items()),
)
