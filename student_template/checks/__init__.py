"""The public checks of this assignment and the small kit that runs them.

Everything here needs torch and numpy alone (rich makes the terminal nicer when it is there). The grader uses these same
files; nothing here imports the grader, and nothing but `package.py` and `executor.py` touches a student's code.
"""
