// A word of the field with its explanation: shown to the pointer, the keyboard and the finger, and read out as its description.
import { lazy, Suspense, useId, useState, type ReactNode, type SyntheticEvent } from "react";
import { createPortal } from "react-dom";
import { wordKey } from "./word-names";

const WordTip = lazy(async () => ({ default: (await import("./word-tip")).WordTip }));

/** What a button of the word has to have, and the explanation beside it; nothing of a word that needs none. */
export function useWord(text: string): { props: object; tip: ReactNode } {
  const id = useId();
  const [place, setPlace] = useState<DOMRect | null>(null);
  const key = wordKey(text);
  if (key === null) return { props: {}, tip: null };
  const show = (event: SyntheticEvent<HTMLElement>) => {
    setPlace(event.currentTarget.getBoundingClientRect());
  };
  const hide = () => {
    setPlace(null);
  };
  const props = {
    "data-word": key,
    "aria-describedby": place ? id : undefined,
    onPointerEnter: show,
    onPointerLeave: hide,
    onFocus: show,
    onBlur: hide,
    onKeyDown: (event: { key: string }) => {
      if (event.key === "Escape") hide();
    },
  };
  const tip =
    place &&
    createPortal(
      <Suspense>
        <WordTip id={id} name={key} place={place} />
      </Suspense>,
      document.body,
    );
  return { props, tip };
}

/** `text` alone where it is none of the explained ones. */
export function Word({ text }: { text: string }) {
  const { props, tip } = useWord(text);
  if (wordKey(text) === null) return text;
  const show = (event: SyntheticEvent<HTMLElement>) => {
    event.currentTarget.focus(); // a finger has no pointer that stays
  };
  return (
    <>
      <button
        type="button"
        {...props}
        onClick={show}
        className="rounded text-left [font:inherit] text-inherit underline decoration-muted/60 decoration-dotted underline-offset-3 cursor-help print:no-underline"
      >
        {text}
      </button>
      {tip}
    </>
  );
}
