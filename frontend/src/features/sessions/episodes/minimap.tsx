// The whole episode in one line: where its tokens stand out, and what part of it is in view. A click or a key moves there.
import { useEffect, useState, type KeyboardEvent, type PointerEvent } from "react";
import type { EpisodeOutline } from "../../../api/types";
import { number } from "../../../ui/format";
import {
  nearestStretch,
  nextStretch,
  numberOf,
  placeOf,
  stretchHeat,
  stretchOf,
  tokensIn,
  type Place,
} from "./outline";
import type { Measure, Scale } from "./token-heat";

const STRONG = /[45]$/;
const PAUSE_MS = 150; // a key that is held loads no page at each stretch

interface Props {
  outline: EpisodeOutline;
  measure: Measure;
  scale: Scale;
  chosen: Place | null;
  /** What has the tokens: the view is found in it. */
  within: HTMLElement | null;
  onMove: (place: Place) => void;
}

export function Minimap({ outline, measure, scale, chosen, within, onMove }: Props) {
  const total = tokensIn(outline);
  const view = useView(within, outline);
  const [moving, setMoving] = useState<number | null>(null);
  useEffect(() => {
    if (moving === null) return;
    const timer = setTimeout(() => {
      setMoving(null);
      const token = outline.surprising[moving];
      if (token !== null && token !== undefined) onMove(placeOf(outline, token));
    }, PAUSE_MS);
    return () => {
      clearTimeout(timer);
    };
  }, [moving, outline, onMove]);
  const heats = outline.surprising.map((_, at) => stretchHeat(outline, at, measure, scale));
  const here = chosen ? numberOf(outline, chosen) : (view?.[0] ?? 0);
  const at = moving ?? stretchOf(outline, here);

  const isStrong = (stretch: number) => STRONG.test(heats[stretch] ?? "");
  const moved: Record<string, () => number | null> = {
    ArrowRight: () => nextStretch(outline, at, 1),
    ArrowLeft: () => nextStretch(outline, at, -1),
    ArrowUp: () => nextStretch(outline, at, -1),
    ArrowDown: () => nextStretch(outline, at, 1),
    PageDown: () => nextStretch(outline, at, 1, isStrong),
    PageUp: () => nextStretch(outline, at, -1, isStrong),
    Home: () => nextStretch(outline, -1, 1),
    End: () => nextStretch(outline, heats.length, -1),
  };
  const press = (event: KeyboardEvent) => {
    const next = event.ctrlKey || event.metaKey || event.altKey ? undefined : moved[event.key];
    if (!next) return;
    event.preventDefault(); // nor is it a key of the page
    const to = next();
    if (to !== null) setMoving(to);
  };
  const point = (event: PointerEvent<HTMLDivElement>) => {
    const box = event.currentTarget.getBoundingClientRect();
    const to = nearestStretch(
      outline,
      stretchOf(outline, ((event.clientX - box.left) / box.width) * outline.width * heats.length),
    );
    if (to !== null) setMoving(to);
  };
  const share = (token: number) => `${String((token / (outline.width * heats.length)) * 100)}%`;
  return (
    <div className="print:hidden">
      <div
        role="slider"
        tabIndex={0}
        aria-label="Place in the episode"
        aria-orientation="horizontal"
        aria-valuemin={1}
        aria-valuemax={total}
        aria-valuenow={Math.min(total, (moving === null ? here : at * outline.width) + 1)}
        aria-valuetext={placeText(outline, at, moving === null ? here : at * outline.width)}
        title="Click, or the arrows: move there. Page up and Page down: the next strong colour."
        className="minimap relative flex h-7 cursor-pointer touch-none overflow-hidden rounded border border-line-strong bg-surface"
        onKeyDown={press}
        onPointerDown={point}
      >
        {heats.map((heat, stretch) => (
          <span
            key={stretch}
            data-heat={heat}
            data-context={outline.surprising[stretch] === null || undefined}
            className="min-w-0 flex-1"
          />
        ))}
        {view && (
          <span
            data-view
            className="pointer-events-none absolute inset-y-0 min-w-1 border-2 border-ink/60 bg-ink/5"
            style={{ left: share(view[0]), width: share(view[1] + 1 - view[0]) }}
          />
        )}
        <span
          className="pointer-events-none absolute inset-y-0 w-0.5 bg-accent"
          style={{ left: share(at * outline.width) }}
        />
      </div>
      <p className="mt-1 text-xs text-muted tabular-nums">
        {number(total)} tokens in all. Each bar has the colour of its strongest token; grey is what
        was read, the frame what is in view.
      </p>
    </div>
  );
}

function placeText(outline: EpisodeOutline, at: number, token: number): string {
  const logprob = outline.logprobs[at];
  const most =
    logprob === null || logprob === undefined
      ? "read, not sampled"
      : `most surprising token here: probability ${number(Math.exp(logprob) * 100)} %`;
  return `Token ${number(token + 1)} of ${number(tokensIn(outline))}; ${most}`;
}

/** Numbers of the first and the last token of `within` that can be seen; null: none. */
function useView(within: HTMLElement | null, outline: EpisodeOutline): [number, number] | null {
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
