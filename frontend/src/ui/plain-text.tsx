// What people, models and agents wrote may be anything. It is shown as text, set apart from the words around it, with symbols for what would act instead of being seen.
import type { ComponentProps } from "react";

const BIDI = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;
const INVISIBLE = /[\u200b\u2060\ufeff\u00ad\u2028\u2029]/g;
// Line feed and tab do what they say. Symbols for the others: U+2400 and on.
// eslint-disable-next-line no-control-regex
const CONTROL = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g;

/** `text` with a visible sign for each control, direction mark and invisible character. */
export function visible(text: string): string {
  return text
    .replace(CONTROL, controlSymbol)
    .replace(BIDI, codeSymbol)
    .replace(INVISIBLE, codeSymbol);
}

function controlSymbol(character: string): string {
  const code = character.charCodeAt(0);
  if (code === 0x7f) return "␡";
  return code < 0x20 ? String.fromCharCode(0x2400 + code) : codeSymbol(character);
}

function codeSymbol(character: string): string {
  return `⟨U+${character.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`;
}

const LONGEST_CHARACTER = 64; // in UTF-16 units: an emoji of a family has 11

/** The beginning of a long text, without a part of a character at its end; null where it is short enough. */
export function beginning(text: string, most: number): string | null {
  if (text.length <= most) return null;
  const around = new Intl.Segmenter().segment(text.slice(0, most + LONGEST_CHARACTER));
  return text.slice(0, around.containing(most)?.index ?? most);
}

interface UserTextProps extends Omit<ComponentProps<"bdi">, "children"> {
  text: string;
}

/** As text, set apart from the words around it. */
export function UserText({ text, ...rest }: UserTextProps) {
  return <bdi {...rest}>{visible(text)}</bdi>;
}
