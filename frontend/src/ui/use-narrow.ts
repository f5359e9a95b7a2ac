// Whether the window is narrow: where rows of tables are cards (cards.css), as below Tailwind's `sm`.
import { useSyncExternalStore } from "react";

const NARROW = "(width < 40rem)";

function subscribe(changed: () => void): () => void {
  const narrow = matchMedia(NARROW);
  narrow.addEventListener("change", changed);
  return () => {
    narrow.removeEventListener("change", changed);
  };
}

export function useNarrow(): boolean {
  return useSyncExternalStore(
    subscribe,
    () => matchMedia(NARROW).matches,
    () => false,
  );
}
