// Which tokens are in the window: the first and the last, by two searches in halves for each frame that is scrolled.
import { useEffect, useState } from "react";
import type { EpisodeOutline } from "../../../api/types";
import { numberOf } from "./outline";

/** Numbers of the first and the last token of `within` that can be seen; null: none. */
export function useView(
  within: HTMLElement | null,
  outline: EpisodeOutline,
): [number, number] | null {
  const [view, setView] = useState<[number, number] | null>(null);
  useEffect(() => {
    if (!within) return;
    let frame = 0;
    let tokens: HTMLElement[] | null = null;
    const numberAt = (at: number) => {
      const token = tokens?.[at];
      return numberOf(outline, {
        line: Number(token?.closest<HTMLElement>("[data-line]")?.dataset.line),
        token: Number(token?.dataset.token),
      });
    };
    const look = () => {
      frame = 0;
      tokens ??= [...within.querySelectorAll<HTMLElement>("[data-token]")];
      const first = firstWhere(tokens, (token) => token.getBoundingClientRect().bottom > 0);
      const last =
        firstWhere(tokens, (token) => token.getBoundingClientRect().top >= window.innerHeight) - 1;
      const now: [number, number] | null = last < first ? null : [numberAt(first), numberAt(last)];
      setView((before) => (before?.[0] === now?.[0] && before?.[1] === now?.[1] ? before : now));
    };
    const soon = () => {
      frame ||= requestAnimationFrame(look);
    };
    const changed = new MutationObserver(() => {
      tokens = null;
      soon();
    });
    changed.observe(within, { childList: true, subtree: true });
    window.addEventListener("scroll", soon, { passive: true });
    window.addEventListener("resize", soon);
    soon();
    return () => {
      cancelAnimationFrame(frame);
      changed.disconnect();
      window.removeEventListener("scroll", soon);
      window.removeEventListener("resize", soon);
    };
  }, [within, outline]);
  return view;
}

/** The index of the first item for which `holds`, where it holds for all after it; the length where there is none. */
export function firstWhere<T>(items: readonly T[], holds: (item: T) => boolean): number {
  let low = 0;
  let high = items.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    const item = items[middle];
    if (item !== undefined && holds(item)) high = middle;
    else low = middle + 1;
  }
  return low;
}
