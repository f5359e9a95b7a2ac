// How surprising a token was, as one of a few steps of colour, so that thousands of spans share their styles.

export const STEPS = 5;
const SURPRISING = 5; // nats: a token of a probability below 0.7 % has the strongest colour

/** The value of `data-heat` (styles.css): "s1" to "s5", or none for a token that was to be expected. */
export function surpriseHeat(logprob: number | undefined): string | undefined {
  return heatLevel("s", -(logprob ?? 0) / SURPRISING);
}

/** `share` is from 0 to 1; more is as 1. */
export function heatLevel(kind: string, share: number): string | undefined {
  const step = Math.min(STEPS, Math.ceil(share * STEPS - 0.5));
  return Number.isFinite(step) && step > 0 ? `${kind}${String(step)}` : undefined;
}
