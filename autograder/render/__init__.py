"""What is shown and written of reports: pure functions of `autograder.report.Report`, each module one reader's form.

They import reports and records, and nothing of the grader that runs student code.
"""
