"""Where a student's code runs: in a forked process of its own, reached over pipes, never in the grader's.

Grading, the command line and the tests import `client` and `confinement` from here, and nothing else does; this package
imports the kit's interface (`checks.calls`, `checks.errors`, and in the worker `checks.executor` and `checks.watch`) and knows
nothing of checks, points or expected values.
"""
