"""Where a student's code runs: in a forked process of its own, reached over pipes, never in the grader's.

Grading, the command line, the doctor and the tests import from here, and nothing else does: `client` and `confinement`, and
the doctor the layers that it asks after. This package imports the kit's interface (`checks.calls`, `checks.errors`, and in the
worker `checks.executor` and `checks.watch`) and knows nothing of checks, points or expected values.
"""
