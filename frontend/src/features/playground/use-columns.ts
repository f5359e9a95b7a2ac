// The columns of the page: their models stand in the address, and what tells one column from another beside it.
import { useLocation, useSearchParams } from "react-router";
import type { Session } from "../../api/types";
import { columnKeys, columnsOf, MOST_COLUMNS } from "./targets";

interface ColumnPlace {
  /** Stays with the column while others are added and removed before it. */
  key: number;
  sessionId: string;
}

export function useColumns(known: Session[]) {
  const [address, setAddress] = useSearchParams();
  const state = useLocation().state as { columnKeys?: number[] } | null;
  const ids = columnsOf(address, known);
  const keys = columnKeys(state?.columnKeys ?? [], ids.length);
  const columns: ColumnPlace[] = ids.map((sessionId, at) => ({ sessionId, key: keys[at] ?? at }));

  function put(next: ColumnPlace[]) {
    const kept = new URLSearchParams(address);
    kept.set("columns", next.map((column) => column.sessionId).join(","));
    // With the address, in one step: keys that came a render earlier would move answers to other columns.
    setAddress(kept, { replace: true, state: { columnKeys: next.map((column) => column.key) } });
  }

  return {
    columns,
    mayAdd: columns.length < MOST_COLUMNS,
    add: () => {
      const other = known.find(({ id }) => !ids.includes(id)) ?? known[0];
      const [key = 0] = columnKeys(keys, keys.length + 1).slice(-1);
      put([...columns, { key, sessionId: other?.id ?? "" }]);
    },
    choose: (key: number, sessionId: string) => {
      put(columns.map((column) => (column.key === key ? { key, sessionId } : column)));
    },
    remove: (key: number) => {
      put(columns.filter((column) => column.key !== key));
    },
    /** From now on the columns are these, whatever else is started: without an address they are the newest model. */
    keep: () => {
      put(columns);
    },
  };
}
