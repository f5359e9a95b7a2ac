// An episode in stretches, from its first token to its last, whatever part of it is loaded. Tokens are numbered through all timelines.
import type { EpisodeOutline } from "../../../api/types";
import { heatLevel, STEPS, surpriseHeat } from "../../../ui/surprise";
import { changeHeat, largestOf, lossHeat, ratioHeat, type Measure, type Scale } from "./token-heat";

/** A token as the address names it: of which timeline, and its position there. */
export interface Place {
  line: number;
  token: number;
}

export function tokensIn(outline: EpisodeOutline): number {
  return outline.timelines.reduce((sum, tokens) => sum + tokens, 0);
}

export function numberOf(outline: EpisodeOutline, { line, token }: Place): number {
  return outline.timelines.slice(0, line).reduce((sum, tokens) => sum + tokens, 0) + token;
}

export function placeOf(outline: EpisodeOutline, number: number): Place {
  let line = 0;
  let token = number;
  while (line < outline.timelines.length - 1 && token >= (outline.timelines[line] ?? 0)) {
    token -= outline.timelines[line] ?? 0;
    line += 1;
  }
  return { line, token };
}

export function stretchOf(outline: EpisodeOutline, number: number): number {
  return Math.min(outline.surprising.length - 1, Math.max(0, Math.floor(number / outline.width)));
}

/** The `data-heat` of a stretch: that of its strongest token. */
export function stretchHeat(
  outline: EpisodeOutline,
  at: number,
  measure: Measure,
  scale: Scale,
): string | undefined {
  if (outline.surprising[at] === null) return undefined;
  if (measure === "logprob") return surpriseHeat(outline.logprobs[at] ?? undefined);
  const advantage = outline.advantages[at] ?? null;
  if (measure === "advantage")
    return advantage === null || scale.advantage === 0
      ? undefined
      : heatLevel(advantage > 0 ? "g" : "b", Math.abs(advantage) / scale.advantage);
  if (measure === "ratio") return ratioHeat(outline.ratios[at]);
  if (measure === "change") return changeHeat(outline.changes[at], scale.change);
  if (measure === "loss") return lossHeat(partOf(outline, at), scale.loss);
  if (measure === "version")
    return `v${String(Math.max(0, scale.versions.indexOf(outline.versions[at] ?? -1)) % STEPS)}`;
  return undefined;
}

/** Of the loss, by the stretch's strongest values. */
function partOf({ advantages, ratios }: EpisodeOutline, at: number): number | null {
  const [advantage, ratio] = [advantages[at] ?? null, ratios[at] ?? null];
  return advantage === null || ratio === null ? null : advantage * ratio;
}

/** The next stretch in a direction that has a sampled token, from `at` on and without it; with `isStrong`, one of those. */
export function nextStretch(
  outline: EpisodeOutline,
  at: number,
  by: 1 | -1,
  isStrong: (at: number) => boolean = () => true,
): number | null {
  for (let next = at + by; next >= 0 && next < outline.surprising.length; next += by) {
    if (outline.surprising[next] !== null && isStrong(next)) return next;
  }
  return null;
}

/** The stretch with a sampled token that is nearest to `at`. */
export function nearestStretch(outline: EpisodeOutline, at: number): number | null {
  if (outline.surprising[at] !== null && at < outline.surprising.length) return at;
  const [before, after] = [nextStretch(outline, at, -1), nextStretch(outline, at, 1)];
  if (before === null || after === null) return before ?? after;
  return at - before <= after - at ? before : after;
}

/** What the colours of a whole episode are relative to; until its outline is there, of what is loaded. */
export function wholeScale(outline: EpisodeOutline | null, loaded: Scale): Scale {
  if (!outline) return loaded;
  const versions = new Set([
    ...loaded.versions,
    ...outline.versions.filter((version) => version !== null),
  ]);
  const advantage = Math.max(
    loaded.advantage,
    ...outline.advantages.map((value) => Math.abs(value ?? 0)),
  );
  const ratios = loaded.ratios || outline.ratios.some((ratio) => ratio !== null);
  const loss = largestOf([loaded.loss, ...outline.advantages.map((_, at) => partOf(outline, at))]);
  return {
    ...loaded,
    loss,
    advantage,
    versions: [...versions].sort((one, other) => one - other),
    ratios,
    change: largestOf([loaded.change, ...outline.changes]),
  };
}

const BEFORE = 300; // tokens that are shown before the one that was asked for

/** From which token on to load, so that number `wanted` is shown: `start` where it is, up to before `end`. */
export function startFor(
  wanted: number | null,
  start: number,
  end: number,
  firstEnd: number,
): number {
  if (wanted === null || (wanted >= start && wanted < end)) return start;
  return wanted < firstEnd ? 0 : Math.max(0, wanted - BEFORE);
}

/** The number after the last token of what is loaded; infinite where all is. */
export function endOf(pages: { next_cursor: string | null }[] | undefined): number {
  const cursor = pages?.[pages.length - 1]?.next_cursor;
  return cursor === undefined || cursor === null ? Infinity : Number(cursor);
}
