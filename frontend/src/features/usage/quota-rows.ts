// Quotas as rows that are shown: what is counted, how much of it there is, and whether it is all there may be.
import type { Held, Quotas } from "../../api/types";

export interface QuotaRow extends Held {
  name: string;
  inBytes: boolean;
  /** Nothing more can be had. */
  isFull: boolean;
}

export function quotaRows(quotas: Quotas): QuotaRow[] {
  return [
    row("Devices in use", quotas.devices),
    row("Sessions not ended", quotas.sessions),
    row("Stored checkpoints", quotas.storage_bytes, true),
  ];
}

function row(name: string, held: Held, inBytes = false): QuotaRow {
  return { ...held, name, inBytes, isFull: held.limit !== null && held.used >= held.limit };
}
