// To what comes before and after, by J and K and as buttons.
import { ChevronLeft, ChevronRight } from "lucide-react";
import { Button } from "../../../ui/button";
import { useKeys } from "./use-keys";

interface PreviousNextProps<T> {
  /** Null, or not known yet: there is none. */
  previous: T | null | undefined;
  next: T | null | undefined;
  onGo: (to: T) => void;
}

export function PreviousNext<T>({ previous, next, onGo }: PreviousNextProps<T>) {
  const go = (to: T | null | undefined) => {
    if (to !== null && to !== undefined) onGo(to);
  };
  useKeys({
    j: () => {
      go(next);
    },
    k: () => {
      go(previous);
    },
  });
  return (
    <>
      <Button
        onClick={() => {
          go(previous);
        }}
        disabled={previous === null || previous === undefined}
        title="K"
      >
        <ChevronLeft className="size-3.5" />
        Previous
      </Button>
      <Button
        onClick={() => {
          go(next);
        }}
        disabled={next === null || next === undefined}
        title="J"
      >
        Next
        <ChevronRight className="size-3.5" />
      </Button>
    </>
  );
}
