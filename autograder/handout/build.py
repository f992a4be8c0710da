"""`handout.html` and `handout.pdf` from `assignment/handout.md`: by pandoc, and by typst for the PDF. Nothing is fetched.

Both come as Python packages with the programs inside. They are imported when they are needed: they are large.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from checks.errors import BadUsage

_HERE = Path(__file__).resolve().parent
SOURCE = _HERE.parents[1] / "assignment" / "handout.md"
_FORMAT = "markdown-smart"
_TIME = 0  # of the PDF, which would have today's in it


def write(out: Path, source: Path = SOURCE) -> list[Path]:
    """Write both into the folder, from the Markdown text, and return their paths. The same text gives the same bytes."""
    if not source.is_file():
        raise BadUsage(f"There is no handout {source}.")
    try:
        out.mkdir(parents=True, exist_ok=True)
        page, printed = out / "handout.html", out / "handout.pdf"
        page.write_text(html(source), encoding="utf-8", newline="\n")
        printed.write_bytes(pdf(source))
    except OSError as error:
        raise BadUsage(f"The handout cannot be written to {out} ({error.strerror}): choose another folder with --out.") from error
    return [page, printed]


def html(source: Path = SOURCE) -> str:
    """The handout as one page: its style, its figures and its mathematics, as MathML, are all in it."""
    arguments = ["--embed-resources", "--mathml", "--toc", "--toc-depth=1", "--syntax-highlighting=none"]
    arguments += [f"--css={_HERE / 'page.css'}", "--metadata=document-css:false"]
    return _pandoc(source, "html5", arguments)


def pdf(source: Path = SOURCE) -> bytes:
    """The handout on A4, with hints unfolded."""
    import typst

    text = _pandoc(source, "typst", [f"--template={_HERE / 'page.typ'}"])
    with tempfile.TemporaryDirectory() as folder:  # typst opens nothing that lies outside of it
        page = Path(folder) / "handout.typ"
        page.write_text(text, encoding="utf-8")
        shutil.copytree(source.parent / "figures", Path(folder) / "figures")
        try:
            return bytes(typst.compile(str(page), root=folder, ignore_system_fonts=True, timestamp=_TIME))
        except typst.TypstError as error:
            raise BadUsage(f"typst cannot print {source.name}: {error}") from None


def _pandoc(source: Path, to: str, arguments: list[str]) -> str:
    import pypandoc

    # So many columns because pandoc gives a table with a longer line than that equally wide columns.
    arguments = ["--standalone", "--columns=1000", f"--lua-filter={_HERE / 'blocks.lua'}", *arguments]
    try:
        made = pypandoc.convert_file(source, to, format=_FORMAT, extra_args=arguments, cworkdir=str(source.parent))
    except RuntimeError as error:
        raise BadUsage(f"pandoc cannot make {to} of {source.name}: {error}") from None
    return str(made)
