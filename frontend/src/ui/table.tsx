// Tables: one look, real header cells. In a narrow window each row is a card, in which each value has its column's name.
import { ArrowDown, ArrowUp, ArrowUpDown } from "lucide-react";
import type { CSSProperties, ReactNode } from "react";
import { cssString } from "./css-string";

export const cell = "px-4 py-2 align-middle";
export const headCell = "px-4 py-2 text-left align-middle font-medium";

const SIGNS = { none: ArrowUpDown, ascending: ArrowUp, descending: ArrowDown };

export interface Sort {
  direction: keyof typeof SIGNS;
  onSort: () => void;
}

export interface Column {
  name: string;
  right?: boolean | undefined;
}

export function Table({ label, head, children }: { label: string; head: readonly (Column & { sort?: Sort })[]; children: ReactNode }) {
  return (
    // "relative": what only screen readers see is placed within, and does not widen the page.
    // In the tab order, so that a narrow window can be scrolled by keyboard.
    <div className="relative overflow-x-auto" tabIndex={0} role="region" aria-label={label}>
      <table className="cards w-full tabular-nums" style={columnNames(head)}>
        <thead>
          <tr className="border-b border-line text-xs text-muted">
            {head.map(({ name, right, sort }) => (
              <th key={name} scope="col" aria-sort={sort?.direction} className={`px-4 py-2 font-medium ${right ? "text-right" : "text-left"}`}>
                {sort ? <SortButton name={name} sort={sort} /> : name || <span className="sr-only">Actions</span>}
              </th>
            ))}
          </tr>
        </thead>
        <tbody className="divide-y divide-line">{children}</tbody>
      </table>
    </div>
  );
}

/** The name of a column, which sorts by it; where rows are cards only the name. */
export function SortButton({ name, sort: { direction, onSort } }: { name: string; sort: Sort }) {
  const Sign = SIGNS[direction];
  return (
    <>
      <span className="sm:hidden">{name}</span>
      <button type="button" onClick={onSort} className="inline-flex items-center gap-1 rounded max-sm:hidden hover:text-ink">
        {name}
        <Sign className={`size-3 print:hidden ${direction === "none" ? "opacity-40" : "text-ink"}`} />
      </button>
    </>
  );
}

/** What cards.css writes before the values of a card. */
function columnNames(head: readonly Column[]): CSSProperties {
  return Object.fromEntries(head.map(({ name }, at) => [`--column-${String(at + 1)}`, cssString(name)]));
}
