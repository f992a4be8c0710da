"""Where a student's code runs: in a forked process of its own, reached over pipes, never in the grader's.

`autograder.grading` and the tests import `client` from here, and nothing else may; this package imports the kit's interface
(`checks.calls`, `checks.errors`, and in the worker `checks.executor`) and knows nothing of checks, points or expected values.
"""
