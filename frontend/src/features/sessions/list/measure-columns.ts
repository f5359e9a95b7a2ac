// What was measured in the last step of a run, as columns of the list of runs: those that the address names.
import { OWN } from "../../../api/metrics";
import type { Session } from "../../../api/types";

/** Shown anyway, or no measure of a run. */
const LEFT_OUT = ["reward_mean"];

/** The names of what some of these runs measured: what agents measured themselves first, as nothing else shows it. */
export function measuresOf(sessions: readonly Pick<Session, "measures">[]): string[] {
  const names = new Set(sessions.flatMap(({ measures }) => Object.keys(measures ?? {})));
  const known = [...names].filter((name) => !LEFT_OUT.includes(name)).sort();
  return [
    ...known.filter((name) => name.startsWith(OWN)),
    ...known.filter((name) => !name.startsWith(OWN)),
  ];
}

export function measureOf({ measures }: Pick<Session, "measures">, name: string): number | null {
  return measures && Object.hasOwn(measures, name) ? (measures[name] ?? null) : null; // an address may name anything
}

/** "metrics/turns" as "turns", "grad_norm" as "grad norm". */
export function measureTitle(name: string): string {
  return name.startsWith(OWN) ? name.slice(OWN.length) : name.replaceAll("_", " ");
}
