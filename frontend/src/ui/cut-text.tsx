// A text of others, cut where it is long, with a button that shows the rest.
import { useState } from "react";
import { number } from "./format";
import { beginning, visible } from "./plain-text";

const CHARACTERS = 2_000;

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
