"""External weights that their recipients alone can read: each file by age, with ``.age`` after its
name.

Source: age-encryption.org/v1. Keys are X25519 (``age1...``) or SSH's (``ssh-ed25519``, ``ssh-rsa``
of 2048 to 4096 bits).
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

import pyrage

from gpu_runtime.errors import DiskFull
from gpu_runtime.gateway.tinker.data import UserMistake
from gpu_runtime.health.volume import room_require

MAX_RECIPIENTS = 16
SUFFIX = ".age"
PANIC = "PanicException"  # of pyo3, with which pyrage is made
Recipient: TypeAlias = pyrage.x25519.Recipient | pyrage.ssh.Recipient


def recipients_read(keys: Sequence[str]) -> list[Recipient]:
    """The public keys. Raises UserMistake, which names the one that is none."""
    if len(keys) > MAX_RECIPIENTS:
        raise UserMistake(
            f"age_encryption_recipients has {len(keys)} keys; at most {MAX_RECIPIENTS} are read"
        )
    recipients: list[Recipient] = []
    for index, key in enumerate(keys):
        try:
            recipients.append(_recipient(key))
        except pyrage.RecipientError:
            raise UserMistake(
                f"age_encryption_recipients[{index}] is no public key that is taken: one begins "
                "with"
                " age1, ssh-ed25519, or ssh-rsa and has 2048 to 4096 bits then"
            ) from None
    return recipients


def _recipient(key: str) -> Recipient:
    """Raises RecipientError."""
    kind = pyrage.ssh.Recipient if key.startswith("ssh-") else pyrage.x25519.Recipient
    try:
        return kind.from_str(key)
    except BaseException as panic:
        # age 0.12 panics at a number of 0 in a key. That would end the runtime, and the next one at
        # the same operation, because such an exception is no Exception; its class has no module to
        # be imported from.
        if type(panic).__name__ == PANIC:
            raise pyrage.RecipientError("age does not read this key") from None
        raise


def folder_encrypt(folder: Path, recipients: Sequence[Recipient]) -> None:
    """Encrypt every file there; none stays that can be read. Raises DiskFull."""
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        room_require(folder, path.stat().st_size)  # both are there until it is whole
        try:
            pyrage.encrypt_file(str(path), f"{path}{SUFFIX}", list(recipients))
        except pyrage.EncryptError as error:  # its keys are sound, so that writing is what failed
            raise DiskFull(f"{path.name} could not be encrypted: {error}") from error
        path.unlink()
