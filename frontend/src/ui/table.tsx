// Tables: one look, real header cells.
import type { ReactNode } from "react";

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
      <table className="w-full tabular-nums">
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
