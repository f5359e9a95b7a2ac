// Where every begun episode went: each is in exactly one row of the ledger.
import type { Accounting, Session } from "../../../api/types";
import { Badge } from "../../../ui/badge";
import { number } from "../../../ui/format";
import { Panel } from "../../../ui/panel";

interface LedgerRow {
  name: string;
  meaning: string;
  value: number;
}

interface Ledger {
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

export function AccountingPanel({ session }: { session: Session }) {
  const { begun, rows, reasons, balances } = ledger(session.accounting);
  return (
    <Panel
      title="Episodes"
      actions={
        balances ? <Badge tone="good">adds up</Badge> : <Badge tone="bad">does not add up</Badge>
      }
    >
      <table className="w-full tabular-nums">
        <tbody>
          <tr className="border-b border-line-strong font-semibold">
            <th scope="row" className="px-4 py-2 text-left">
              begun
            </th>
            <td className="px-4 py-2 text-right">{number(begun)}</td>
          </tr>
          {rows.map((row) => (
            <tr key={row.name} className={row.value === 0 ? "text-muted" : ""}>
              <th scope="row" className="px-4 py-1 text-left font-normal">
                {row.name}
                <span className="ml-2 text-xs text-muted">{row.meaning}</span>
                {row.name === "abandoned" && reasons.length > 0 && (
                  <ul className="mt-0.5 mb-1 text-xs text-muted">
                    {reasons.map(([reason, times]) => (
                      <li key={reason} className="pl-3">
                        {reason}: {number(times)}
                      </li>
                    ))}
                  </ul>
                )}
              </th>
              <td className="px-4 py-1 text-right align-top">{number(row.value)}</td>
            </tr>
          ))}
        </tbody>
        <caption className="caption-bottom border-t border-line px-4 py-2 text-left text-xs text-muted">
          begun = {rows.map((row) => row.name).join(" + ")}
        </caption>
      </table>
    </Panel>
  );
}
