"""Makes `tests/submissions/zipped.zip` from `tests/zip_sample/`, as a student's file manager would have made it.

    python tests/make_zip_sample.py

The submission stands in a top folder, and the zip has the entries that macOS adds. The same sources give the same bytes:
sorted names, one fixed time, one fixed mode, and no compression, which differs between versions of zlib.
"""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
SOURCE = HERE / "zip_sample"
TARGET = HERE / "submissions" / "zipped.zip"

_TIME = (2025, 1, 1, 12, 0, 0)
_APPLE_DOUBLE = bytes.fromhex("00051607 00020000") + b"Mac OS X".ljust(16) + bytes(2)  # such a file with no entries


def zip_bytes(source: Path = SOURCE) -> bytes:
    """The zip: every Python file below `source`, and beside each of them its `__MACOSX` shadow."""
    files = sorted(path.relative_to(source).as_posix() for path in source.rglob("*.py"))
    entries = {name: (source / name).read_bytes() for name in files}
    for name in files:
        folder, _, file = name.rpartition("/")
        entries[f"__MACOSX/{folder}/._{file}"] = _APPLE_DOUBLE
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(entries):
            info = zipfile.ZipInfo(name, _TIME)
            info.create_system = 3  # Unix, wherever this runs
            info.external_attr = 0o100644 << 16
            archive.writestr(info, entries[name])
    return buffer.getvalue()


if __name__ == "__main__":
    TARGET.write_bytes(zip_bytes())
