"""What `explore.py` and its notebook stand on: the series, the drawing, and errors told in a sentence.

Nothing here computes attention; that is the student's own, in `attention/`. The checks neither import this nor are imported.
"""
