// What the list of sessions is narrowed to. It stands in the page's address, so that a link or "back" keeps it.
import { ENDED_STATES, type SessionFilter } from "../../../api/sessions";
import type { SessionSort, SessionState } from "../../../api/types";
import { withParts } from "../../../ui/address-part";
import { rangeOf } from "../../../ui/date-range";
import type { Sort } from "../../../ui/table";
import { BOUND } from "../episodes/episode-filter";

const GOING: readonly SessionState[] = [
  "queued",
  "provisioning",
  "loading",
  "ready",
  "suspended",
  "stopping",
];

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

// A measure is named by the part "by" beside it.
const BY_MEASURE = "measure";
const OPTION = /^\w+\s*=.{1,300}$/; // while it is being typed it is none yet
// What the server takes as a tag: no bar and no comma.
const TAG = /^[^|,]{1,40}$/;

/** The filter that an address asks for; a state that there is not means every one, and so does what is no tag. */
export function filterOf(address: URLSearchParams): SessionFilter {
  const choice = STATE_CHOICES.find((one) => one.value === address.get("state"));
  const by = address.get("by") ?? "";
  const asked = address.get("sort");
  const sort =
    asked === BY_MEASURE && by
      ? BY_MEASURE
      : (SORT_CHOICES.find((one) => one.value === asked)?.value ?? "pinned");
  const tag = (address.get("tag") ?? "").trim();
  const name = (address.get("name") ?? "").trim();
  const option = (address.get("option") ?? "").trim();
  const model = address.get("model") ?? "";
  const measure = (address.get("measure") ?? "").trim();
  return {
    states: choice?.states ?? [],
    name,
    tag: TAG.test(tag) ? tag : "",
    option: OPTION.test(option) ? option : "",
    model,
    ...rangeOf(address),
    pinned: address.get("pinned") === "true",
    measure: BOUND.test(measure) ? measure : "",
    sort,
    sortBy: sort === BY_MEASURE ? by : "",
    reverse: address.get("reverse") === "true",
  };
}

/** Whether the list leaves something out. */
export function isNarrowed({
  states,
  name,
  tag,
  option,
  model,
  since,
  until,
  pinned,
  measure,
}: SessionFilter): boolean {
  return (
    states.length > 0 ||
    Boolean(name || tag || option || model || measure || since || until) ||
    pinned === true
  );
}

// Which column shows what the list is sorted by, and which way round the server's order begins.
const COLUMN_SORTS: Record<string, { sort: SessionSort; first: Sort["direction"] }> = {
  Session: { sort: "name", first: "ascending" },
  Steps: { sort: "steps", first: "descending" },
  Reward: { sort: "reward", first: "descending" },
  Created: { sort: "newest", first: "descending" },
};

type Turned = {
  direction: Sort["direction"];
  turned: (direction: Sort["direction"]) => URLSearchParams;
};

const OTHER = { ascending: "descending", descending: "ascending", none: "none" } as const;

function turnable(
  address: URLSearchParams,
  first: Sort["direction"],
  isSorted: boolean,
  sort: SessionSort,
  by: string,
): Turned {
  return {
    direction: !isSorted ? "none" : address.get("reverse") === "true" ? OTHER[first] : first,
    turned: (direction) => {
      const isNone = direction === "none";
      return withParts(address, {
        sort: isNone ? "" : sort,
        by: isNone ? "" : by,
        reverse: direction === OTHER[first] ? "true" : "",
      });
    },
  };
}

/** Of each column that sorts: its direction now, and the address with another one. */
export function sortsOf(address: URLSearchParams): Record<string, Turned> {
  const now = filterOf(address).sort;
  return Object.fromEntries(
    Object.entries(COLUMN_SORTS).map(([name, { sort, first }]) => [
      name,
      turnable(address, first, sort === now, sort, ""),
    ]),
  );
}

/** The same of the column of a measure. */
export function measureSort(address: URLSearchParams, name: string): Turned {
  return turnable(address, "descending", filterOf(address).sortBy === name, BY_MEASURE, name);
}
