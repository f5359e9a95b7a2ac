// Changes that were told while a list was on its way: its answer may be older than they are, so they are put over it.
import { hashKey, type QueryClient, type QueryKey } from "@tanstack/react-query";
import type { SessionChange } from "../../../api/types";
import { applyChanges, type Pages } from "./session-changes";

export interface ToldMeanwhile {
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
