// Smoothing of a curve, as the slider above charts asks for it.
import { useTypedPart } from "./address-part";

export const MAX_SMOOTHING = 0.99;

/** The weight of what came before, from the address; 0 is none. */
export function smoothingOf(address: URLSearchParams): number {
  const asked = Number(address.get("smooth") ?? "0");
  return Number.isFinite(asked) ? Math.min(MAX_SMOOTHING, Math.max(0, asked)) : 0;
}

export interface Smoothing {
  /** Of what came before. */
  weight: number;
  setWeight: (weight: number) => void;
}

/** Curves follow each input at once. The address, of which browsers take few changes in a second, follows after a pause. */
export function useSmoothing(): Smoothing {
  const [typed, setTyped] = useTypedPart("smooth");
  return {
    weight: smoothingOf(new URLSearchParams({ smooth: typed })),
    setWeight: (weight) => {
      setTyped(weight === 0 ? "" : String(weight));
    },
  };
}

/**
 * Exponential moving average, without the bias of its start (Adam, Kingma and Ba 2015, section 3), as a weighted mean
 * that each value moves: m_t = m_(t-1) + (v_t - m_(t-1)) (1 - w) / (1 - w^t). So a constant stays exactly what it is.
 * A missing value stays missing and changes nothing.
 */
export function smoothed(values: readonly (number | null)[], weight: number): (number | null)[] {
  if (weight <= 0) return [...values];
  let mean = 0;
  let left = 1;
  return values.map((value) => {
    if (value === null || !Number.isFinite(value)) return null;
    left *= weight;
    const share = (1 - weight) / (1 - left);
    const apart = value - mean;
    mean = Number.isFinite(apart) ? mean + share * apart : share * value + (1 - share) * mean;
    return mean;
  });
}
