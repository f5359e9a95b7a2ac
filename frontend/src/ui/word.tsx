// A word of the field with its explanation: shown to the pointer, the keyboard and the finger, and read out as its description.
import { lazy, Suspense, useId, useState, type SyntheticEvent } from "react";
import { createPortal } from "react-dom";
import { wordKey } from "./word-names";

const WordTip = lazy(async () => ({ default: (await import("./word-tip")).WordTip }));

/** `text` alone where it is none of the explained ones. */
export function Word({ text }: { text: string }) {
  const id = useId();
  const [place, setPlace] = useState<DOMRect | null>(null);
  const key = wordKey(text);
  if (key === null) return text;
  const show = (event: SyntheticEvent<HTMLElement>) => {
    setPlace(event.currentTarget.getBoundingClientRect());
  };
  const hide = () => {
    setPlace(null);
  };
  return (
    <>
      <button
        type="button"
        aria-describedby={place ? id : undefined}
        className="rounded text-left [font:inherit] text-inherit underline decoration-muted/60 decoration-dotted underline-offset-3 cursor-help print:no-underline"
        onPointerEnter={show}
        onPointerLeave={hide}
        onFocus={show}
        onBlur={hide}
        onClick={show}
        onKeyDown={(event) => {
          if (event.key === "Escape") hide();
        }}
      >
        {text}
      </button>
      {place &&
        createPortal(
          <Suspense>
            <WordTip id={id} name={key} place={place} />
          </Suspense>,
          document.body,
        )}
    </>
  );
}
