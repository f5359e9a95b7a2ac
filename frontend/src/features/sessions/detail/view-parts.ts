// The parts of a run's address that say how its charts are looked at: what a saved view keeps.

const PARTS = ["x", "smooth", "y", "open"];

/** Those parts of an address, always in one order: two addresses of the same view are the same text. */
export function viewOf(address: URLSearchParams): string {
  const kept = new URLSearchParams();
  for (const name of PARTS) {
    const value = address.get(name);
    if (value) kept.set(name, value);
  }
  return kept.toString();
}

/** Whether an address says how charts are looked at. */
export function hasChartParts(address: URLSearchParams): boolean {
  return [...PARTS, "zoom"].some((name) => address.has(name));
}

/** The address with the view's parts in the place of its own; all that is no part of a view stays. */
export function withView(address: URLSearchParams, view: string): URLSearchParams {
  const next = new URLSearchParams(address);
  for (const name of [...PARTS, "zoom"]) next.delete(name); // a range is one of this run and axis
  for (const [name, value] of new URLSearchParams(view))
    if (PARTS.includes(name)) next.set(name, value);
  return next;
}
