// What a live change does to a list of sessions: its row is as it is told, the list is asked for again where that is not enough, and an older answer gets what was told meanwhile.
import { hashKey, type QueryClient, type QueryKey } from "@tanstack/react-query";
import type { SessionFilter } from "../../../api/sessions";
import type { Session, SessionChange, SessionChanges, SessionSort } from "../../../api/types";

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

interface ToldMeanwhile {
  /** Changes of this moment; they are kept where the list is on its way. */
  told: (changes: readonly SessionChange[]) => void;
  stop: () => void;
}

/** `keyOf` has the key of the list that is shown now. Where an answer is newer than a kept change, the channel tells what followed it. */
export function keepTold(client: QueryClient, keyOf: () => QueryKey): ToldMeanwhile {
  const kept = new Map<string, SessionChange>();
  const stop = client.getQueryCache().subscribe((event) => {
    if (event.type !== "updated" || hashKey(event.query.queryKey) !== hashKey(keyOf())) return;
    if (event.action.type === "fetch") kept.clear(); // what was told before it is in its answer
    if (event.action.type !== "success" || event.action.manual || kept.size === 0) return;
    const changes = [...kept.values()];
    kept.clear();
    client.setQueryData<Pages>(event.query.queryKey, (list) => list && applyChanges(list, changes));
  });
  return {
    told: (changes) => {
      if (client.isFetching({ queryKey: keyOf(), exact: true }) === 0) return;
      for (const change of changes) kept.set(change.id, change);
    },
    stop,
  };
}
