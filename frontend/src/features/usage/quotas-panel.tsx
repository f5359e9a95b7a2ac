// What the project has now, beside the limits that are set for it.
import type { Held, Quotas } from "../../api/types";
import { Fact } from "../../ui/fact";
import { bytes, number } from "../../ui/format";
import { Meter } from "../../ui/meter";
import { Panel } from "../../ui/panel";

interface QuotaRow extends Held {
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

export function QuotasPanel({ quotas }: { quotas: Quotas }) {
  return (
    <Panel title="Now" className="overflow-hidden">
      <dl className="cells grid-cols-1 sm:grid-cols-3">
        {quotaRows(quotas).map((row) => (
          <Fact
            key={row.name}
            term={row.name}
            note={row.limit === null ? "no limit" : `of ${shown(row, row.limit)}`}
          >
            <span className="w-full">
              <span className={row.isFull ? "text-warn" : ""}>{shown(row, row.used)}</span>
              {row.limit !== null && (
                <Meter label={row.name} share={row.limit === 0 ? 1 : row.used / row.limit} />
              )}
            </span>
          </Fact>
        ))}
      </dl>
    </Panel>
  );
}

function shown(row: QuotaRow, value: number): string {
  return row.inBytes ? bytes(value) : number(value);
}
