// The limits of a session as rows: what is used of each, and when it is reached if it goes on as so far.
import type { Spending } from "../../api/types";
import { money, number, span } from "../../ui/format";

export interface LimitRow {
  name: string;
  used: string;
  /** Of what is allowed. */
  share: number;
  /** Empty where nothing can be foretold. */
  forecast: string;
}

const NAMES: Record<string, string> = {
  steps: "Steps",
  wall_s: "Wall time",
  device_s: "Device time",
  spend_cap_s: "Cap of its key",
  hours: "Runtime, limit of this server",
};

export function limitRows({ limits, prices }: Spending): LimitRow[] {
  return limits.map(({ limit, allowed, used, left_s: left, cost_at_limit: cost }) => {
    const inUnits = (value: number) =>
      limit === "steps" ? number(value) : span(limit === "hours" ? value * 3600 : value);
    const costs = cost !== null && prices ? `, having cost ${money(cost, prices.currency)}` : "";
    const when = limit === "wall_s" ? "reached in" : "reached after another";
    return {
      name: NAMES[limit] ?? limit,
      share: allowed === 0 ? 1 : used / allowed,
      used: `${inUnits(used)} of ${inUnits(allowed)}`,
      forecast:
        left === null
          ? ""
          : `${when} ${span(left)}${limit === "wall_s" ? "" : " at the pace so far"}${costs}`,
    };
  });
}
