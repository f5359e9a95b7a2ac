// The ledger of episodes: every begun one is in exactly one of the other rows.
import type { Accounting } from "../../../api/types";

export interface LedgerRow {
  name: string;
  meaning: string;
  value: number;
}

export interface Ledger {
  begun: number;
  rows: LedgerRow[];
  reasons: [string, number][];
  balances: boolean;
}

export function ledger(accounting: Accounting): Ledger {
  const rows: LedgerRow[] = [
    { name: "trained", meaning: "in a step", value: accounting.trained },
    { name: "waiting", meaning: "completed, group not full yet", value: accounting.waiting },
    { name: "open", meaning: "still running", value: accounting.open },
    { name: "eval", meaning: "measured, never trained", value: accounting.eval },
    { name: "abandoned", meaning: "given up by your program", value: accounting.abandoned },
    { name: "expired", meaning: "out of time", value: accounting.expired },
    { name: "stale", meaning: "completed, not to be trained", value: accounting.stale },
  ];
  const reasons = Object.entries(accounting.abandoned_by_reason).sort((a, b) => b[1] - a[1]);
  return {
    begun: accounting.begun,
    rows,
    reasons,
    balances: accounting.begun === rows.reduce((sum, row) => sum + row.value, 0),
  };
}
