// What a live change does to a list of sessions: its row is as it is told, and the list is asked for again where that is not enough.
import type { Session, SessionChange, SessionChanges, SessionSort } from "../../../api/types";
import type { SessionFilter } from "../../../api/sessions";

export interface Pages {
  pages: { items: Session[] }[];
}

/** The pages with the changes in their rows; the same object where none of its rows changed. */
export function applyChanges<T extends Pages>(list: T, changes: readonly SessionChange[]): T {
  const changed = new Map(changes.map((change) => [change.id, change]));
  if (!list.pages.some((page) => page.items.some((item) => changed.has(item.id)))) return list;
  const pages = list.pages.map((page) => ({
    ...page,
    items: page.items.map((item) => ({ ...item, ...changed.get(item.id) })),
  }));
  return { ...list, pages };
}

const MOVING: Partial<Record<SessionSort, (session: SessionChange) => unknown>> = {
  reward: (session) => session.reward_mean,
  steps: (session) => session.policy_version,
  measure: (session) => session.policy_version, // what a step measured is not told, but that there is one
};

/** Whether rows may have to come, go or change places: a session that is not in the list, a state, a measure that sorts it. */
export function isMisplaced(
  list: Pages,
  { items, is_cut }: SessionChanges,
  { states, sort, measure: bound }: SessionFilter,
): boolean {
  if (is_cut) return true;
  const known = new Map(list.pages.flatMap((page) => page.items.map((item) => [item.id, item])));
  const measure = bound ? MOVING.measure : sort && MOVING[sort];
  return items.some((item) => {
    const before = known.get(item.id);
    if (!before) return true;
    return (
      (states.length > 0 && before.state !== item.state) ||
      (measure !== undefined && measure(before) !== measure(item))
    );
  });
}
