// Tables: one look, real header cells. In a narrow window each row is a card, in which each value has its column's name.
import { ArrowDown, ArrowUp, ArrowUpDown } from "lucide-react";
import type { CSSProperties, ReactNode } from "react";
import { Button } from "./button";
import { inputClass } from "./field";
import { visible } from "./plain-text";
import { useWord, Word } from "./word";

export const cell = "px-4 py-1.5 align-middle";
export const headCell = "px-4 py-1.5 text-left align-middle font-medium";

const SIGNS = { none: ArrowUpDown, ascending: ArrowUp, descending: ArrowDown };

type Direction = keyof typeof SIGNS;

const NEXT = { none: "ascending", ascending: "descending", descending: "none" } as const;

export interface Sort {
  direction: Direction;
  onSort: (direction: Direction) => void;
}

export interface Column {
  name: string;
  right?: boolean | undefined;
}

export function Table({
  label,
  head,
  children,
}: {
  label: string;
  head: readonly (Column & { sort?: Sort })[];
  children: ReactNode;
}) {
  return (
    // "relative": what only screen readers see is placed within, and does not widen the page.
    // In the tab order, so that a narrow window can be scrolled by keyboard.
    <div className="relative overflow-x-auto" tabIndex={0} role="region" aria-label={label}>
      <SortSelect head={head} />
      <table className="cards w-full tabular-nums" style={columnNames(head)}>
        <thead>
          <tr className="border-b border-line text-xs text-muted">
            {head.map(({ name, right, sort }) => (
              <th
                key={name}
                scope="col"
                aria-sort={sort?.direction}
                className={`px-4 py-1.5 font-medium ${right ? "text-right" : "text-left"}`}
              >
                {sort ? (
                  <SortButton name={name} sort={sort} />
                ) : name ? (
                  <Word text={name} />
                ) : (
                  <span className="sr-only">Actions</span>
                )}
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
function SortButton({ name, sort: { direction, onSort } }: { name: string; sort: Sort }) {
  const Sign = SIGNS[direction];
  const { props, tip } = useWord(name);
  return (
    <>
      <span className="sm:hidden">{name}</span>
      <button
        type="button"
        {...props}
        onClick={() => {
          onSort(NEXT[direction]);
        }}
        className="inline-flex items-center gap-1 rounded max-sm:hidden hover:text-ink"
      >
        {name}
        <Sign
          className={`size-3 print:hidden ${direction === "none" ? "opacity-40" : "text-ink"}`}
        />
      </button>
      {tip}
    </>
  );
}

/** Where rows are cards, and no column's name stands above them to be clicked. */
function SortSelect({ head }: { head: readonly (Column & { sort?: Sort })[] }) {
  const sorted = head.flatMap(({ name, sort }) => (sort ? [{ name, ...sort }] : []));
  if (sorted.length === 0) return null;
  const now = sorted.find(({ direction }) => direction !== "none");
  return (
    <div className="flex items-center gap-2 border-b border-line px-4 py-2 text-xs text-muted sm:hidden print:hidden">
      <span aria-hidden className="shrink-0">
        Sort by
      </span>
      <select
        aria-label="Sort by"
        className={inputClass}
        value={now ? `${now.direction} ${now.name}` : ""}
        onChange={({ target }) => {
          const [direction, ...words] = target.value.split(" ");
          const chosen = sorted.find(({ name }) => name === words.join(" "));
          if (chosen) chosen.onSort(direction === "ascending" ? "ascending" : "descending");
          else now?.onSort("none");
        }}
      >
        <option value="">nothing</option>
        {sorted.flatMap(({ name }) =>
          (["ascending", "descending"] as const).map((direction) => (
            <option key={`${direction} ${name}`} value={`${direction} ${name}`}>
              {name}, {direction}
            </option>
          )),
        )}
      </select>
    </div>
  );
}

/** What cards.css writes before the values of a card. */
function columnNames(head: readonly Column[]): CSSProperties {
  return Object.fromEntries(
    head.map(({ name }, at) => [`--column-${String(at + 1)}`, cssString(name)]),
  );
}

/** `text` in quotes, its own quotes and backslashes escaped, and nothing in it that is not seen. */
export function cssString(text: string): string {
  const plain = visible(text).replace(/\s+/g, " ");
  return `"${plain.replace(/["\\]/g, "\\$&")}"`;
}

interface Query {
  hasNextPage: boolean;
  isFetchingNextPage: boolean;
  fetchNextPage: () => Promise<unknown>;
}

/** The end of a list that is read page by page. */
export function ShowOlder({ query }: { query: Query }) {
  if (!query.hasNextPage) return null;
  return (
    <div className="mt-3 text-center">
      <Button onClick={() => void query.fetchNextPage()} disabled={query.isFetchingNextPage}>
        Show older
      </Button>
    </div>
  );
}
