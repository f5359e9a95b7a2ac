// Single keys for a page: not while something is typed, nor with a modifier, so that the browser's own stay.
import { useLayoutEffect } from "react";

export function useKeys(keys: Record<string, () => void>): void {
  // In the same commit as what the page shows. A key that came before a later effect would lead from
  // the place before.
  useLayoutEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      const action = keys[event.key];
      const typing =
        event.target instanceof HTMLElement &&
        event.target.closest("input, select, textarea, [contenteditable], [role=dialog]");
      if (
        !action ||
        typing ||
        event.ctrlKey ||
        event.metaKey ||
        event.altKey ||
        event.defaultPrevented
      )
        return;
      event.preventDefault();
      action();
    };
    window.addEventListener("keydown", pressed);
    return () => {
      window.removeEventListener("keydown", pressed);
    };
  }, [keys]);
}
