// Long texts of others: cut, with a button that shows the rest; and what tools are called with and give back, laid out.
import { useState } from "react";
import { number } from "./format";
import { beginning, visible } from "./plain-text";

const CHARACTERS = 2_000;

/** A text of others, cut where it is long, with a button that shows the rest. */
export function CutText({
  text,
  most = CHARACTERS,
  className = "",
}: {
  text: string;
  most?: number;
  className?: string;
}) {
  const [whole, setWhole] = useState(false);
  const cut = whole ? null : beginning(text, most);
  return (
    <span className={className}>
      {visible(cut ?? text)}
      {cut !== null && (
        <button
          type="button"
          className="ml-1 rounded bg-sunken px-1.5 font-sans text-accent hover:underline"
          onClick={() => {
            setWhole(true);
          }}
        >
          show all {number(text.length)} characters
        </button>
      )}
    </span>
  );
}

/** JSON with its lines and levels; another text as it is. */
export function readable(value: unknown): string {
  if (typeof value !== "string") return JSON.stringify(value, null, 2) ?? "";
  if (!/^\s*[[{]/.test(value) || /\d{16}/.test(value)) return value; // of longer numbers digits would be lost
  try {
    return JSON.stringify(JSON.parse(value), null, 2);
  } catch {
    return value;
  }
}
