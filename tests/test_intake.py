"""Submissions as students make them, and as nobody should: what is read, what is refused, and what is said about it."""

from __future__ import annotations

import os
import stat
import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from autograder.intake import NoSubmission, Submission, discover, read, safe_name
from checks.errors import BadUsage

FILES = {"attention/__init__.py": "", "attention/masking.py": "x = 1\n", "attention/own/helper.py": "y = 2\n"}


def folder(root: Path, files: Mapping[str, str | bytes], inside: str = "") -> Path:
    for name, content in files.items():
        path = root / inside / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return root


def zipped(path: Path, files: dict[str, str], inside: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(inside + name, content)
    return path


# What is taken.


@pytest.mark.parametrize("inside", ["", "hw/", "student 7/hw/"])
def test_a_folder_and_a_zip_give_the_same_at_the_top_or_wrapped(tmp_path: Path, inside: str) -> None:
    first = read(folder(tmp_path / "one", FILES, inside))
    second = read(zipped(tmp_path / "two.zip", FILES, inside))
    assert first.sources == second.sources == FILES
    assert first.digest == second.digest
    assert (first.name, second.name) == ("one", "two")
    assert first.problems == second.problems == {}
    assert first.notes == second.notes == ((f"Found in {inside}attention/.",) if inside else ())


def test_only_python_files_of_the_package_are_taken(tmp_path: Path) -> None:
    beside = ("torch.py", "conftest.py", "sitecustomize.py", ".git/attention/x.py", "__MACOSX/attention/a.py")
    inside = ("notes.txt", ".hidden.py", "._masking.py", "__pycache__/masking.py")
    other = dict.fromkeys((*beside, *(f"attention/{name}" for name in inside)), "x")
    assert read(folder(tmp_path / "one", FILES | other)).sources == FILES
    assert read(zipped(tmp_path / "two.zip", FILES | other)).sources == FILES


def test_the_highest_folder_wins_and_then_the_first_by_name(tmp_path: Path) -> None:
    files = {"b/attention/x.py": "b", "a/deep/attention/x.py": "deep", "c/attention/x.py": "c"}
    assert read(folder(tmp_path / "one", files)).sources == {"attention/x.py": "b"}
    assert read(zipped(tmp_path / "two.zip", files)).sources == {"attention/x.py": "b"}


def test_a_package_three_folders_down_is_not_found(tmp_path: Path) -> None:
    for path in (folder(tmp_path / "one", FILES, "a/b/c/"), zipped(tmp_path / "two.zip", FILES, "a/b/c/")):
        with pytest.raises(NoSubmission, match="holds no folder attention/"):
            read(path)


def test_line_ends_and_byte_order_marks_make_no_difference(tmp_path: Path) -> None:
    plain = read(folder(tmp_path / "one", {"attention/a.py": "x = 'é'\ny = 2\n"}))
    windows = read(folder(tmp_path / "two", {"attention/a.py": b"\xef\xbb\xbfx = '\xc3\xa9'\r\ny = 2\r\n"}))
    mac = read(folder(tmp_path / "three", {"attention/a.py": b"x = '\xc3\xa9'\ry = 2\r"}))
    assert plain.sources == windows.sources == mac.sources
    assert plain.digest == windows.digest == mac.digest


@pytest.mark.parametrize("inside", ["", "hw/"])
@pytest.mark.parametrize("where", ["report.md", "Report.MD", "attention/report.md"])
def test_the_report_is_found_beside_the_package_or_in_it(tmp_path: Path, inside: str, where: str) -> None:
    files = FILES | {where: "Because.\r\n", "elsewhere/report.md": "No."}
    for path in (folder(tmp_path / "one", files, inside), zipped(tmp_path / "two.zip", files, inside)):
        submission = read(path)
        assert (submission.report, submission.sources) == ("Because.\n", FILES)
        assert submission.digest != read(folder(tmp_path / "without" / path.name, FILES)).digest
    assert read(folder(tmp_path / "none", FILES | {"elsewhere/report.md": "No."})).report is None


def test_a_report_that_cannot_be_read_costs_nothing_else(tmp_path: Path) -> None:
    submission = read(folder(tmp_path / "one", FILES | {"report.md": b"caf\xe9"}))
    assert (submission.report, submission.sources) == (None, FILES)
    assert submission.problems == {"report.md": "report.md is not UTF-8 text (byte 0xe9 in line 1): save it as UTF-8."}


def test_names_as_courses_export_them(tmp_path: Path) -> None:
    """Canvas' zips with name, numbers and LATE in one; Gradescope's folders by number, beside a file about them."""
    for name in ("doejane_1234567_89012345_attention.zip", "roejohn_LATE_123_456_submission-2.zip"):
        zipped(tmp_path / "canvas" / name, FILES, "submission/")
    for number in (123456789, 987654321):
        folder(tmp_path / "gradescope" / f"submission_{number}", FILES)
    (tmp_path / "gradescope" / "submission_metadata.yml").write_text("---")
    (tmp_path / "gradescope" / "__MACOSX").mkdir()
    names = [each.name for each in discover([tmp_path / "canvas", tmp_path / "gradescope"])]
    assert names == [
        "doejane_1234567_89012345_attention",
        "roejohn_LATE_123_456_submission-2",
        "submission_123456789",
        "submission_987654321",
    ]


def test_a_zip_with_backslashes_is_read(tmp_path: Path) -> None:
    path = zipped(tmp_path / "a.zip", {"hw\\attention\\masking.py": "x = 1\n"})
    assert read(path).sources == {"attention/masking.py": "x = 1\n"}


def test_the_digest_is_of_paths_and_text_and_refusals(tmp_path: Path) -> None:
    variants: list[dict[str, str | bytes]] = [
        {"attention/a.py": "x"},
        {"attention/b.py": "x"},
        {"attention/a.py": "y"},
        {"attention/a.py": "x", "attention/b.py": ""},
        {"attention/a.py": "x", "attention/b.py": b"\xe9"},
        {"attention/a.py": "x", "attention/c.py": b"\xe9"},
    ]
    digests = [read(folder(tmp_path / str(number), files)).digest for number, files in enumerate(variants)]
    assert len(set(digests)) == len(variants)
    assert read(folder(tmp_path / "again", variants[0])).digest == digests[0]
    assert len(digests[0]) == 64


# What is refused, file by file.


def refusal(submission: Submission, file: str = "attention/bad.py") -> str:
    assert submission.sources == {"attention/good.py": "x = 1\n"}
    assert list(submission.problems) == [file]
    return submission.problems[file]


def with_good(root: Path) -> Path:
    return folder(root, {"attention/good.py": "x = 1\n"})


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"a = 1\r\n# ok\r\nb = '\xe9'\r\n", "(byte 0xe9 in line 3)"),
        (b"\xef\xbb\xbfa\n\xff", "(byte 0xff in line 2)"),
        ("x = 1".encode("utf-16"), "(byte 0xff in line 1)"),
        (b"\xed\xa0\x80", "(byte 0xed in line 1)"),
    ],
)
def test_what_is_not_utf8_is_refused_by_byte_and_line(tmp_path: Path, content: bytes, told: str) -> None:
    path = folder(with_good(tmp_path / "a"), {"attention/bad.py": content})
    assert refusal(read(path)) == f"attention/bad.py is not UTF-8 text {told}: save it as UTF-8."


def test_a_link_a_pipe_a_folder_and_a_second_name_are_refused(tmp_path: Path) -> None:
    secret = tmp_path / "secret.py"
    secret.write_text("secret", "utf-8")
    (with_good(tmp_path / "link") / "attention/bad.py").symlink_to(secret)
    os.mkfifo(with_good(tmp_path / "pipe") / "attention/bad.py")
    os.link(secret, with_good(tmp_path / "hard") / "attention/bad.py")
    assert "is a symbolic link" in refusal(read(tmp_path / "link"))
    assert "is not a regular file" in refusal(read(tmp_path / "pipe"))
    assert "is a hard link" in refusal(read(tmp_path / "hard"))
    (with_good(tmp_path / "folder") / "attention/bad.py").mkdir()
    assert read(tmp_path / "folder").problems == {}


def test_a_linked_folder_is_not_followed(tmp_path: Path) -> None:
    folder(tmp_path / "elsewhere", FILES)
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "attention").symlink_to(tmp_path / "elsewhere" / "attention")
    with pytest.raises(NoSubmission):
        read(tmp_path / "one")
    (with_good(tmp_path / "two") / "attention" / "own").symlink_to(tmp_path / "elsewhere" / "attention")
    assert list(read(tmp_path / "two").sources) == ["attention/good.py"]


def test_a_large_file_is_refused_and_one_at_the_limit_is_read(tmp_path: Path) -> None:
    at_limit, above = "#" * (256 << 10), "#" * ((256 << 10) + 1)
    for path in (folder(tmp_path / "a", {"attention/a.py": at_limit}), zipped(tmp_path / "a.zip", {"attention/a.py": at_limit})):
        assert len(read(path).sources["attention/a.py"]) == 256 << 10
    files = {"attention/good.py": "x = 1\n", "attention/bad.py": above}
    for path in (folder(tmp_path / "b", files), zipped(tmp_path / "b.zip", files)):
        assert "larger than 256 KiB" in refusal(read(path))


def test_too_many_files_are_cut_from_the_deepest(tmp_path: Path) -> None:
    files = {f"attention/deep/f{number}.py": "" for number in range(80)} | {"attention/z.py": ""}
    submission = read(folder(tmp_path / "a", files))
    assert len(submission.sources) == 64
    assert "attention/z.py" in submission.sources
    assert submission.notes == ("Only the first 64 of 81 Python files in attention/ were read.",)


def entry(name: str, mode: int = stat.S_IFREG | 0o644) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.external_attr = mode << 16
    info.create_system = 3
    return info


def test_a_link_in_a_zip_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("attention/good.py", "x = 1\n")
        archive.writestr(entry("attention/bad.py", stat.S_IFLNK | 0o777), "/etc/passwd")
    assert "is a symbolic link" in refusal(read(tmp_path / "a.zip"))


def test_entries_that_point_outside_are_ignored(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        for name in ("attention/good.py", "../attention/x.py", "attention/../../y.py", "/attention/z.py", "..\\attention\\w.py"):
            archive.writestr(name, "x = 1\n")
    submission = read(tmp_path / "a.zip")
    assert submission.sources == {"attention/good.py": "x = 1\n"}
    assert submission.notes == ("4 entries that point outside the zip were ignored.",)


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("second", ["attention/bad.py", "attention//bad.py", "./attention/bad.py", "attention\\bad.py"])
def test_a_file_that_is_in_a_zip_twice_is_refused(tmp_path: Path, second: str) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("attention/good.py", "x = 1\n")
        archive.writestr("attention/bad.py", "1")
        archive.writestr(second, "2")
    assert "2 times" in refusal(read(tmp_path / "a.zip"))


def central(path: Path, name: bytes, offset: int, form: str, value: int) -> None:
    """Overwrite one field of an entry in a zip's central directory."""
    data = bytearray(path.read_bytes())
    position = data.rindex(name) - 46
    assert data[position : position + 4] == b"PK\x01\x02"
    struct.pack_into(form, data, position + offset, value)
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("offset", "form", "value", "told"),
    [
        (8, "<H", 1, "encrypted"),
        (10, "<H", 14, "compressed in an unusual way"),
        (16, "<I", 12345, "damaged"),
        (24, "<I", 10, "damaged"),
        (24, "<I", 1 << 30, "larger than"),
        (20, "<I", 1, "damaged"),
        (42, "<I", 0, "damaged"),
    ],
    ids=["encrypted", "lzma", "checksum", "short size", "long size", "compressed size", "another's place"],
)
def test_forged_entries_are_refused(tmp_path: Path, offset: int, form: str, value: int, told: str) -> None:
    path = zipped(tmp_path / "a.zip", {"attention/good.py": "x = 1\n", "attention/bad.py": "y = 2\n" * 50})
    central(path, b"attention/bad.py", offset, form, value)
    assert told in refusal(read(path))


def test_a_bomb_that_lies_about_its_size_is_not_unpacked(tmp_path: Path) -> None:
    path = zipped(tmp_path / "a.zip", {"attention/good.py": "x = 1\n", "attention/bad.py": "#" * (50 << 20)})
    central(path, b"attention/bad.py", 24, "<I", 1000)
    assert "damaged" in refusal(read(path))


# What is refused whole.


def test_what_is_no_zip_is_refused(tmp_path: Path) -> None:
    cut = zipped(tmp_path / "a.zip", FILES).read_bytes()[:-30]
    for number, content in enumerate((b"", b"PK\x03\x04", b"not a zip" * 100, cut)):
        path = tmp_path / f"bad{number}.zip"
        path.write_bytes(content)
        with pytest.raises(NoSubmission, match="not a zip file that can be read"):
            read(path)


def test_a_zip_of_very_many_entries_is_refused(tmp_path: Path) -> None:
    path = zipped(tmp_path / "a.zip", FILES | {f"data/{number}": "" for number in range(20_001)})
    with pytest.raises(NoSubmission, match="more than 20000 entries"):
        read(path)


@pytest.mark.parametrize("record", ["plain", "64-bit"])
def test_a_zip_that_claims_a_huge_table_is_refused_before_it_is_read(tmp_path: Path, record: str) -> None:
    path = zipped(tmp_path / "a.zip", FILES)
    data = bytearray(path.read_bytes())
    end = data.rindex(b"PK\x05\x06")
    if record == "plain":
        struct.pack_into("<I", data, end + 12, 1 << 30)
    else:
        data[end:end] = b"PK\x06\x07" + bytes(16)
    path.write_bytes(data)
    with pytest.raises(NoSubmission, match="zip the folder"):
        read(path)


def test_without_the_package_there_is_no_submission(tmp_path: Path) -> None:
    for path in (folder(tmp_path / "a", {"masking.py": ""}), zipped(tmp_path / "a.zip", {"masking.py": ""})):
        with pytest.raises(NoSubmission, match=r"holds no folder attention/, but masking\.py at its top\. Hand in"):
            read(path)
    with pytest.raises(NoSubmission, match="without any Python file"):
        read(folder(tmp_path / "b", {"attention/notes.txt": ""}))


# What there is to grade.


def test_a_class_is_found_in_order_with_those_who_handed_in_something_else(tmp_path: Path) -> None:
    folder(tmp_path / "class" / "bob", FILES)
    folder(tmp_path / "class" / "Ann Lee", FILES, "hw")
    folder(tmp_path / "class" / "eve", {"essay.txt": ""})
    zipped(tmp_path / "class" / "cy.ZIP", FILES)
    (tmp_path / "class" / "broken.zip").write_bytes(b"x")
    folder(tmp_path / "class", {"README.md": "", "grades.csv": "", ".DS_Store": ""})
    (tmp_path / "class" / "__MACOSX").mkdir()
    found = discover([tmp_path / "class"])
    assert [each.name for each in found] == ["Ann_Lee", "bob", "broken", "cy", "eve"]
    assert discover([tmp_path / "class"]) == found


def test_paths_are_submissions_or_classes(tmp_path: Path) -> None:
    alone = folder(tmp_path / "alone", FILES)
    archive = zipped(tmp_path / "archive.zip", FILES)
    folder(tmp_path / "class" / "bob", FILES)
    assert [each.path for each in discover([archive, alone, tmp_path / "class"])] == [archive, alone, tmp_path / "class" / "bob"]


def test_names_are_unique_and_stay_readable(tmp_path: Path) -> None:
    for name in ("a b", "a_b", "A_b"):
        folder(tmp_path / "class" / name, FILES)
    zipped(tmp_path / "class" / "a b.zip", FILES)
    names = [each.name for each in discover([tmp_path / "class"])]
    assert len({name.lower() for name in names}) == 4
    assert all(name.lower().startswith("a_b") for name in names)
    ann, bob = folder(tmp_path / "ann", FILES, "hw"), folder(tmp_path / "bob", FILES, "hw")
    assert [each.name for each in discover([ann, bob])] == ["ann_hw", "bob_hw"]


@pytest.mark.parametrize(
    ("given", "safe"),
    [
        ("ann", "ann"),
        ("ann lee (2)", "ann_lee_2"),
        ("../../etc", "_.._etc"),
        (".hidden", "hidden"),
        ("-rf", "rf"),
        ("日本 Zoë", "日本_Zoë"),
        ("é" * 300, "é" * 50),
        ("?!", "submission"),
        ("a\n\x1b[31mb", "a_31mb"),
        ("x" * 300, "x" * 100),
    ],
)
def test_a_name_is_safe(given: str, safe: str) -> None:
    assert safe_name(given) == safe


def test_the_current_folder_has_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder(tmp_path / "mine", FILES))
    assert [each.name for each in discover([Path(".")])] == ["mine"]
    assert read(Path(".")).name == "mine"


def test_bad_paths_are_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    folder(tmp_path / "nothing", {"ann/essay.txt": "", "bob/essay.txt": ""})
    folder(tmp_path, {"a.txt": ""})
    for path, told in {
        "missing": "There is no file or folder",
        "empty": "holds no folder attention/",
        "nothing": "holds no folder attention/",
        "a.txt": "neither a folder nor a zip file",
    }.items():
        with pytest.raises(BadUsage, match=told) as caught:
            discover([tmp_path / path])
        assert "\n" not in str(caught.value)
        assert path in str(caught.value)
