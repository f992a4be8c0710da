"""Texts that no parser should be given, and files beside the package whose names other programs load of their own accord."""

from __future__ import annotations

from ..attack import BROKEN, FAILED, NOTHING, WRONG, Attack, hostile, raw

_PARSER = "crash or stall whatever parses or compiles the file"
_BESIDE = "have the grader, pytest or Python load a file that lies in the submission"
_PACKAGE = "reach the grader or the other parts through the package itself"

_BOMBS = {
    "200 000 signs": "x = " + "-" * 200_000 + "1",
    "200 000 times not": "x = " + "not " * 50_000 + "1",
    "100 000 attributes": "x = a" + ".a" * 100_000,
    "100 000 calls": "x = a" + "()" * 100_000,
    "100 000 brackets": "x = " + "(" * 100_000 + ")" * 100_000,
    "100 000 lists": "x = " + "[" * 100_000 + "]" * 100_000,
    "90 nested lists and a shout": "x = " + "[" * 90 + "]" * 90 + "\n!",
    "deep lambdas": "x = " + "lambda: " * 30_000 + "1",
    "20 000 times elif": "if x: pass\n" + "elif x: pass\n" * 15_000,
    "deep blocks": "\n".join(" " * depth + "if 1:" for depth in range(600)) + "\n" + " " * 600 + "pass",
    "deep functions": "\n".join(" " * depth + f"def f{depth}():" for depth in range(90)) + "\n" + " " * 90 + "pass",
    "20 nested loops": "\n".join(" " * depth + "for x in y:" for depth in range(25)) + "\n" + " " * 25 + "pass",
    "comparisons": "x = " + "1 < " * 60_000 + "1",
    "powers": "x = " + "2 ** " * 40_000 + "1",
    "a sum": "x = " + "1 + " * 60_000 + "1",
    "strings side by side": "x = " + "'a' " * 60_000,
    "comprehensions": "x = " + "[" * 80 + "0" + " for a in b]" * 80,
    "patterns": "match x:\n case " + "[" * 5000 + "]" * 5000 + ": pass",
    "decorators": "@x\n" * 60_000 + "def f(): pass",
    "a folded power": "x = 9 ** 9 ** 9 ** 9",
    "a folded text": "x = 'x' * 9_999_999_999_999",
    "a number of 200 000 digits": "x = " + "9" * 200_000,
    "null bytes": "x = 1\0\nimport os\0",
    "a name of 200 000 letters": "x" * 200_000 + " = 1",
    "f-strings": "x = f'" + "{" * 200 + "1" + "}" * 200 + "'",
    "an unknown coding": "# -*- coding: nosuch -*-\nx = 1",
    "a coding that runs": "# -*- coding: unicode_escape -*-\n\\u0069mport os",
    "UTF-7": "# -*- coding: utf-7 -*-\n+AGkAbQBwAG8AcgB0-",
    "form feeds": "\f" * 100_000,
    "lines continued": "x = 1 + " + "\\\n" * 60_000 + "1",
    "dedents": "if 1:\n" + " " * 99 + "x\n" + " " * 50 + "y",
    "a star of stars": "print(" + "*a, " * 60_000 + ")",
    "local names": "def f():\n" + "".join(f" a{n} = 1\n" for n in range(15_000)),
}

# Each of these would be run by something that is not ready for it, and says so in a file.
_TELL = "import os\nfile = open('$target', 'w')\nfile.write('run')\nfile.close()\n"
_TRAPS = (
    *("conftest.py", "sitecustomize.py", "usercustomize.py", "torch.py", "numpy.py", "safetensors.py", "json.py", "os.py"),
    *(
        "typing.py",
        "checks.py",
        "autograder.py",
        "sandbox.py",
        "worker.py",
        "zygote.py",
        "otter/__init__.py",
        "torch/__init__.py",
    ),
    *(
        "checks/__init__.py",
        "checks/conftest.py",
        "autograder/__init__.py",
        "attention/conftest.py",
        "attention/sitecustomize.py",
    ),
    *("attention/torch.py", "attention/typing.py", "attention/__main__.py", "setup.py", "tests/test_x.py", "attention/test_x.py"),
)
_SETTINGS = {
    "pytest.ini": "[pytest]\naddopts = -p trap\npython_files = *.py\n",
    "setup.cfg": "[tool:pytest]\naddopts = -p trap\n",
    "pyproject.toml": "[tool.pytest.ini_options]\naddopts = '-p trap'\n[project.entry-points.pytest11]\ntrap = 'conftest'\n",
    "tox.ini": "[pytest]\naddopts = -p trap\n",
    "x.pth": "import os; open('$target', 'w')\n",
    ".OTTER_LOG": "not a log at all",
    "otter_config.json": '{"show_hidden": true}',
    "Makefile": "grade:\n\ttouch $target\n",
    ".coveragerc": "[run]\nplugins = trap\n",
    "results.json": '{"score": 100}',
    ".github/workflows/grade.yml": "on: push\n",
}

_INIT = {
    "patches all parts": """
        import sys, torch
        torch.allclose = torch.equal = lambda *a, **k: True
        sys.modules['attention.masking'] = sys.modules['attention.scaled_dot_product'] = sys.modules['checks.executor']
    """,
    "ends the process": "import os\nos._exit(0)\n",
    "loops": "while True: pass\n",
    "replaces itself": "import sys\nclass All:\n    def __getattr__(self, name): return lambda *a, **k: None\n"
    "sys.modules[__name__] = All()\n",
}

PARSING: tuple[Attack, ...] = (
    *(raw(f"parses: {name}", _PARSER, source, BROKEN | {"not started"}) for name, source in _BOMBS.items()),
    hostile(
        "lies beside the package",
        _BESIDE,
        "scaled_dot_product_attention = wrong\n",
        FAILED,
        more={**dict.fromkeys(_TRAPS, _TELL), **_SETTINGS},
    ),
    *(
        Attack(
            f"a package that {name}",
            _PACKAGE,
            {**WRONG, "attention/__init__.py": body},
            WRONG,
            NOTHING,
            ("test_matches_library",),
        )
        for name, body in _INIT.items()
    ),
)
