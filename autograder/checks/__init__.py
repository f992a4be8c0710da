"""The hidden checks, one module a part, on the students' own check kit. They import the kit and nothing of the grader."""
