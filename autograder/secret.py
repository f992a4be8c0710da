"""The grading secret: with it the inputs of every check follow from the submission, and without it nobody can tell them."""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from pathlib import Path

from checks.errors import BadUsage

_SHORTEST = 16  # characters


def default_path() -> Path:
    """`.grading-secret` in the repository's root: kept between runs, so that a regrade draws the same inputs."""
    return Path(__file__).resolve().parent.parent / ".grading-secret"


def load(path: Path | None = None) -> bytes:
    """The secret in that file. The default file is made, readable by its owner only, where there is none yet."""
    path, given = (default_path(), False) if path is None else (path, True)
    try:
        if not given:
            _make(path)
        text = path.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise BadUsage(f"The grading secret {path} cannot be used ({reason}): name another file with --secret-file.") from error
    if len(text) < _SHORTEST:
        raise BadUsage(f"The grading secret in {path} is too short: put {_SHORTEST} random characters or more in it.")
    return text.encode()


def seed(secret: bytes, digest: str, check: str) -> int:
    """The seed of one check on one submission: HMAC-SHA256 of both under the secret, 56 bits of it."""
    return int.from_bytes(hmac.new(secret, f"{digest}\n{check}".encode(), hashlib.sha256).digest()[:7], "big")


def _make(path: Path) -> None:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return
    with os.fdopen(descriptor, "w") as file:
        file.write(secrets.token_hex(32) + "\n")
