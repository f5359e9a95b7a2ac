// Which runs an address compares, and the colour of each: its place in the address, so that a link shows the same colours.
export const MAX_RUNS = 8;
const ID = /^ses_\w{1,60}$/;

/** Up to eight ids, each once; what is no id of a run is left out. */
export function runsOf(address: URLSearchParams): string[] {
  const asked = (address.get("runs") ?? "").split(",").filter((id) => ID.test(id));
  return [...new Set(asked)].slice(0, MAX_RUNS);
}

/** The address with these runs. Commas stay as they are, so that it can be read. */
export function withRuns(address: URLSearchParams, runs: readonly string[]): string {
  const next = new URLSearchParams(address);
  next.delete("runs");
  const others = next.toString();
  return `?runs=${runs.join(",")}${others && `&${others}`}`;
}

export function colourOf(place: number): string {
  return `--series-${String((place % MAX_RUNS) + 1)}`;
}
