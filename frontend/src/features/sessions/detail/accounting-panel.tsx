// Where every begun episode went.
import type { Session } from "../../../api/types";
import { Badge } from "../../../ui/badge";
import { number } from "../../../ui/format";
import { Panel } from "../../../ui/panel";
import { ledger } from "./accounting";

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
