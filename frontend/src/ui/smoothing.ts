// Smoothing of a curve, as the slider above charts asks for it.

export const MAX_SMOOTHING = 0.99;

/** The weight of what came before, from the address; 0 is none. */
export function smoothingOf(address: URLSearchParams): number {
  const asked = Number(address.get("smooth") ?? "0");
  return Number.isFinite(asked) ? Math.min(MAX_SMOOTHING, Math.max(0, asked)) : 0;
}

/**
 * Exponential moving average, without the bias of its start: m_t = w m_(t-1) + (1 - w) v_t, divided by 1 - w^t (Adam,
 * Kingma and Ba 2015, section 3). A missing value stays missing and changes nothing.
 */
export function smoothed(values: readonly (number | null)[], weight: number): (number | null)[] {
  if (weight <= 0) return [...values];
  let mean = 0;
  let unbiased = 1;
  return values.map((value) => {
    if (value === null) return null;
    mean = weight * mean + (1 - weight) * value;
    unbiased *= weight;
    return mean / (1 - unbiased);
  });
}
