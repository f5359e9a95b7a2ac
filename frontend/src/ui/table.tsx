// Tables: one look, real header cells. In a narrow window each row is a card, in which each value has its column's name.
import type { CSSProperties, ReactNode } from "react";
import { cssString } from "./css-string";

export const cell = "px-4 py-2 align-middle";
export const headCell = "px-4 py-2 text-left align-middle font-medium";

interface Column {
  name: string;
  right?: boolean;
}

export function Table({ label, head, children }: { label: string; head: Column[]; children: ReactNode }) {
  return (
    // "relative": what only screen readers see is placed within, and does not widen the page.
    // In the tab order, so that a narrow window can be scrolled by keyboard.
    <div className="relative overflow-x-auto" tabIndex={0} role="region" aria-label={label}>
      <table className="cards w-full tabular-nums" style={columnNames(head)}>
        <thead>
          <tr className="border-b border-line text-xs text-muted">
            {head.map((column) => (
              <th key={column.name} scope="col" className={`px-4 py-2 font-medium ${column.right ? "text-right" : "text-left"}`}>
                {column.name || <span className="sr-only">Actions</span>}
              </th>
            ))}
          </tr>
        </thead>
        <tbody className="divide-y divide-line">{children}</tbody>
      </table>
    </div>
  );
}

/** What cards.css writes before the values of a card. */
function columnNames(head: Column[]): CSSProperties {
  return Object.fromEntries(head.map(({ name }, at) => [`--column-${String(at + 1)}`, cssString(name)]));
}
