import { expect, test } from "vitest";
import { beginning, visible } from "./plain-text";

test("controls, direction marks and invisible characters are shown as symbols", () => {
  expect(visible("a\u0000b\u001b[31m\r\u007f\u0085")).toBe("a␀b␛[31m␍␡⟨U+0085⟩");
  expect(visible("\u202egpj.exe\u2066\u200f")).toBe("⟨U+202E⟩gpj.exe⟨U+2066⟩⟨U+200F⟩");
  expect(visible("in\u200bvisible\ufeff\u2028")).toBe("in⟨U+200B⟩visible⟨U+FEFF⟩⟨U+2028⟩");
});

test("lines, tabs, every language and emoji stay as they are", () => {
  const text = "line\n\ttab <script>alert(1)</script> é 日本語 👩‍👩‍👧 עברית";
  expect(visible(text)).toBe(text);
});

test("a long text is cut, but no character in two", () => {
  expect(beginning("short", 5)).toBeNull();
  expect(beginning("abcdef", 4)).toBe("abcd");
  expect(beginning("ab😀cd", 3)).toBe("ab");
  expect(beginning("ab😀cd", 4)).toBe("ab😀");
});

test("a text is cut between two characters, of whatever they are made", () => {
  const family = "👩‍👩‍👧‍👦";
  expect(beginning(`ab${family}`, 1 + family.length)).toBe("ab");
  expect(beginning(`ab${family}cd`, 2 + family.length)).toBe(`ab${family}`);
  expect(beginning("e\u0301e\u0301", 3)).toBe("e\u0301");
});
