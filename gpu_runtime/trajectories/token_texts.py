"""The text of each token of a sequence, and the bytes of those tokens that are not whole
characters.

A byte-level vocabulary may divide a character between tokens. Its text is given to the last of
them, so that the texts joined are the decoded whole; the bytes of each come from the vocabulary.
"""

import re
from collections.abc import Sequence
from typing import Protocol

# decoded at once: a thread that decodes a long answer lets others run in between
CHUNK_TOKENS = 1024
WINDOW = 4  # tokens before, which decide whether a text begins with a space
# tokens that can share a character: of UTF-8's four bytes each may come with a mark of its own
MAX_SPLIT = 8
UNKNOWN = "\ufffd"
BYTE = re.compile(r"<0x([0-9A-F]{2})>")


def _byte_characters() -> dict[str, int]:
    """The characters by which byte-level vocabularies name bytes: GPT-2's ``bytes_to_unicode``, the
    other way round.
    """
    printable = [
        *range(ord("!"), ord("~") + 1),
        *range(ord("¡"), ord("¬") + 1),
        *range(ord("®"), ord("ÿ") + 1),
    ]
    others = [value for value in range(256) if value not in printable]
    return {chr(value): value for value in printable} | {
        chr(256 + n): value for n, value in enumerate(others)
    }


BYTE_OF = _byte_characters()


class Decoder(Protocol):
    """What is needed of a Tokenizer or a Renderer."""

    def decode(self, token_ids: Sequence[int], *, special: bool = False) -> str: ...
    def entry(self, token_id: int) -> str: ...


class TokenTexts:
    """Texts of one model's tokens. Keeps the text of each token that it has seen alone."""

    def __init__(self, tokenizer: Decoder) -> None:
        self._tokenizer = tokenizer
        self._alone: dict[int, str] = {}

    def text(self, token_ids: Sequence[int], before: Sequence[int] = ()) -> str:
        """Decoded, special tokens included; ``before`` are the tokens that they follow."""
        if len(token_ids) > CHUNK_TOKENS:
            return "".join(self.pieces(token_ids, before))
        return self._following(before[-WINDOW:], token_ids)

    def pieces(self, token_ids: Sequence[int], before: Sequence[int] = ()) -> list[str]:
        """The text of each token; ``before`` are the tokens that they follow."""
        pieces: list[str] = []
        before = tuple(before[-WINDOW:])
        while len(pieces) < len(token_ids):
            chunk = token_ids[len(pieces) : len(pieces) + CHUNK_TOKENS]
            alone = [self._token(token_id) for token_id in chunk]
            if UNKNOWN not in "".join(alone) and "".join(alone) == self._following(before, chunk):
                found = alone
            else:
                found = self._carefully(
                    chunk, before, is_last=len(pieces) + len(chunk) == len(token_ids)
                )
            pieces += found
            before = (*before, *chunk[: len(found)])[-WINDOW:]
        return pieces

    def split_bytes(self, token_ids: Sequence[int]) -> dict[int, str]:
        """By index: the bytes, in hex, of each token that is not whole characters. Unknown ones are
        left out.
        """
        found = {}
        for index, token_id in enumerate(token_ids):
            if UNKNOWN in self._token(token_id) and (
                raw := token_bytes(self._tokenizer.entry(token_id))
            ):
                found[index] = raw.hex()
        return found

    def _carefully(
        self, chunk: Sequence[int], before: tuple[int, ...], *, is_last: bool
    ) -> list[str]:
        """Token by token. An unfinished character at the end of a chunk that is not the last is
        left to the next.
        """
        pieces: list[str] = []
        start = 0
        for index in range(len(chunk)):
            text = self._following(before, chunk[start : index + 1])
            is_unfinished = text.endswith(UNKNOWN) and index - start + 1 < MAX_SPLIT
            if is_unfinished and (index + 1 < len(chunk) or not is_last):
                continue
            pieces += [""] * (index - start) + [text]
            before = (*before, *chunk[start : index + 1])[-WINDOW:]
            start = index + 1
        return pieces

    def _following(self, before: Sequence[int], token_ids: Sequence[int]) -> str:
        if not before:
            return self._decode(token_ids)
        return self._decode([*before, *token_ids])[len(self._decode(before)) :]

    def _token(self, token_id: int) -> str:
        if token_id not in self._alone:
            self._alone[token_id] = self._decode([token_id])
        return self._alone[token_id]

    def _decode(self, token_ids: Sequence[int]) -> str:
        return self._tokenizer.decode(token_ids, special=True)


def token_bytes(entry: str) -> bytes:
    """The bytes that a vocabulary's entry stands for: of byte-level ones, and of ``<0xE2>``; else
    nothing.
    """
    if match := BYTE.fullmatch(entry):
        return bytes.fromhex(match[1])
    if all(character in BYTE_OF for character in entry):
        return bytes(BYTE_OF[character] for character in entry)
    return b""
