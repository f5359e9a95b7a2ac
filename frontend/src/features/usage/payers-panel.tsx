// Whose sessions used what: keys, or members.
import type { DevicePrices, PayerUsage } from "../../api/types";
import { money, number, span } from "../../ui/format";
import { Panel } from "../../ui/panel";
import { visible } from "../../ui/plain-text";
import { cell, headCell, Table } from "../../ui/table";
import { UserText } from "../../ui/user-text";

const HEAD = [{ name: "Name" }, { name: "Device time", right: true }];
const COST = { name: "Cost", right: true };

interface PayersPanelProps {
  title: string;
  payers: PayerUsage[];
  prices: DevicePrices | null;
}

export function PayersPanel({ title, payers, prices }: PayersPanelProps) {
  const right = `${cell} text-right whitespace-nowrap`;
  if (payers.length === 0) return null;
  return (
    <Panel title={title}>
      <Table label={`Usage, ${title.toLowerCase()}`} head={prices ? [...HEAD, COST] : HEAD}>
        {payers.map((payer) => (
          <tr key={payer.id ?? ""} className="hover:bg-sunken">
            <th scope="row" className={`${headCell} max-w-64 truncate`} title={visible(payer.name)}>
              <UserText text={payer.name} />
            </th>
            <td className={right} title={`${number(payer.device_s)} seconds`}>
              {span(payer.device_s)}
            </td>
            {prices && <td className={right}>{money(payer.cost, prices.currency)}</td>}
          </tr>
        ))}
      </Table>
    </Panel>
  );
}
