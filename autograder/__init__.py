"""The grader. Its check kit is the students' own, `student_template/checks`, imported as `checks`."""

import sys
from pathlib import Path

# A student's copy of the kit has to be whole and by itself, so it lives there and is imported from there.
_KIT = str(Path(__file__).resolve().parent.parent / "student_template")
if _KIT not in sys.path:
    sys.path.append(_KIT)
