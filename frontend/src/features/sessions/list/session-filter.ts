// What the list of sessions is narrowed to. It stands in the page's address, so that a link or "back" keeps it.
import { ENDED_STATES, type SessionFilter } from "../../../api/sessions";
import type { SessionSort, SessionState } from "../../../api/types";
import { withPart } from "../../../ui/address-part";
import { rangeOf } from "../../../ui/date-range";
import type { Sort } from "../../../ui/table";

const GOING: readonly SessionState[] = ["queued", "provisioning", "loading", "ready", "suspended", "stopping"];

export const STATE_CHOICES: { value: string; name: string; states: readonly SessionState[] }[] = [
  { value: "", name: "Every state", states: [] },
  { value: "going", name: "Not ended", states: GOING },
  { value: "ended", name: "Ended", states: ENDED_STATES },
  ...[...GOING, ...ENDED_STATES].map((state) => ({ value: state, name: state, states: [state] })),
];

/** Pinned ones first, unless something else is asked for. */
export const SORT_CHOICES: { value: SessionSort; name: string }[] = [
  { value: "pinned", name: "Pinned first" },
  { value: "newest", name: "Newest" },
  { value: "name", name: "Name" },
  { value: "reward", name: "Reward" },
  { value: "steps", name: "Steps" },
  { value: "active", name: "Last used" },
  { value: "device_time", name: "Device time" },
];

const OPTION = /^\w+\s*=.{1,300}$/; // while it is being typed it is none yet
// What the server takes as a tag: no bar and no comma.
const TAG = /^[^|,]{1,40}$/;

/** The filter that an address asks for; a state that there is not means every one, and so does what is no tag. */
export function filterOf(address: URLSearchParams): SessionFilter {
  const choice = STATE_CHOICES.find((one) => one.value === address.get("state"));
  const sort = SORT_CHOICES.find((one) => one.value === address.get("sort"))?.value ?? "pinned";
  const tag = (address.get("tag") ?? "").trim();
  const name = (address.get("name") ?? "").trim();
  const option = (address.get("option") ?? "").trim();
  const model = address.get("model") ?? "";
  return { states: choice?.states ?? [], name, tag: TAG.test(tag) ? tag : "", option: OPTION.test(option) ? option : "", model, ...rangeOf(address), pinned: address.get("pinned") === "true", sort, reverse: address.get("reverse") === "true" };
}

/** Whether the list leaves something out. */
export function isNarrowed({ states, name, tag, option, model, since, until, pinned }: SessionFilter): boolean {
  return states.length > 0 || Boolean(name || tag || option || model || since || until) || pinned === true;
}

// Which column shows what the list is sorted by, and which way round the server's order begins.
const COLUMN_SORTS: Record<string, { sort: SessionSort; first: Sort["direction"] }> = {
  Session: { sort: "name", first: "ascending" },
  Steps: { sort: "steps", first: "descending" },
  Reward: { sort: "reward", first: "descending" },
  Created: { sort: "newest", first: "descending" },
};

/** Of each column that sorts: its direction now, and the address with another one. */
export function sortsOf(address: URLSearchParams): Record<string, { direction: Sort["direction"]; turned: (direction: Sort["direction"]) => URLSearchParams }> {
  const { sort, reverse = false } = filterOf(address);
  const other = { ascending: "descending", descending: "ascending", none: "none" } as const;
  return Object.fromEntries(
    Object.entries(COLUMN_SORTS).map(([name, column]) => [
      name,
      {
        direction: column.sort !== sort ? "none" : reverse ? other[column.first] : column.first,
        turned: (direction) => {
          const sorted = withPart(address, "sort", direction === "none" ? "" : column.sort);
          return withPart(sorted, "reverse", direction === other[column.first] ? "true" : "");
        },
      },
    ]),
  );
}
