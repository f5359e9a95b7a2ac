// A table that is whole in the browser: sorted by its columns, narrowed by a text, long ones from their first rows on.
// The sort stands in the page's address.
import {
  columnFilteringFeature,
  createFilteredRowModel,
  createPaginatedRowModel,
  createSortedRowModel,
  filterFn_includesString,
  globalFilteringFeature,
  rowPaginationFeature,
  rowSortingFeature,
  sortFn_alphanumeric,
  sortFn_basic,
  tableFeatures,
  useTable,
  type ColumnDef,
  type Row as TableRow,
  type SortingState,
} from "@tanstack/react-table";
import { useMemo, useState, type ReactNode } from "react";
import { useAddress } from "./address-part";
import { Button } from "./button";
import { number } from "./format";
import { Table, type Column, type Sort } from "./table";

const ROWS_AT_FIRST = 50;

const features = tableFeatures({
  columnFilteringFeature,
  globalFilteringFeature,
  rowPaginationFeature,
  rowSortingFeature,
  filteredRowModel: createFilteredRowModel(),
  paginatedRowModel: createPaginatedRowModel(),
  sortedRowModel: createSortedRowModel(),
  filterFns: { includesString: filterFn_includesString },
});

export interface SortedColumn<Row> extends Column {
  /** What it is sorted by; a column without is not sorted. Rows without a value come last, either way. */
  value?: (row: Row) => string | number | null | undefined;
  /** Whether `containing` looks through its values: those that stand in the table as they are. */
  searched?: boolean;
}

interface SortedTableProps<Row> {
  label: string;
  head: readonly SortedColumn<Row>[];
  rows: readonly Row[];
  /** Only rows with this text in a value of a searched column, in any case. */
  containing?: string;
  /** The part of the address that the sort stands in: a column's name, with "-" before it from the largest on. */
  part?: string;
  children: (row: Row) => ReactNode;
}

export function SortedTable<Row extends object>({
  label,
  head,
  rows,
  containing = "",
  part = "by",
  children,
}: SortedTableProps<Row>) {
  const [address, setAddress] = useAddress();
  const [all, setAll] = useState(false);
  const asked = address.get(part) ?? "";
  const sorting = useMemo(() => sortingOf(asked, head), [asked, head]);
  const columns = useMemo(() => columnsOf(head), [head]);
  const data = useMemo(() => [...rows], [rows]);
  const pagination = { pageIndex: 0, pageSize: all ? Math.max(1, rows.length) : ROWS_AT_FIRST };
  const state = { sorting, globalFilter: containing.trim(), pagination };
  const table = useTable({
    features,
    columns,
    data,
    state,
    globalFilterFn: "includesString",
    getColumnCanGlobalFilter: () => true,
    autoResetPageIndex: false,
  });
  const found = table.getFilteredRowModel().rows.length;
  const shown = table.getRowModel().rows;
  const sort = (name: string, direction: Sort["direction"]) => {
    const next = { none: "", ascending: name, descending: `-${name}` }[direction];
    setAddress({ [part]: next });
  };
  const sorted = head.map(({ name, right, value }) => {
    const now = sorting.find(({ id }) => id === name);
    const direction =
      now === undefined
        ? ("none" as const)
        : now.desc
          ? ("descending" as const)
          : ("ascending" as const);
    return {
      name,
      right,
      ...(value && {
        sort: {
          direction,
          onSort: (to: Sort["direction"]) => {
            sort(name, to);
          },
        },
      }),
    };
  });
  return (
    <>
      <Table label={label} head={sorted}>
        {shown.map((row) => children(row.original))}
      </Table>
      {shown.length < found && (
        <div className="border-t border-line p-2 text-center print:hidden">
          <Button
            look="quiet"
            onClick={() => {
              setAll(true);
            }}
          >
            Show all {number(found)}
          </Button>
        </div>
      )}
    </>
  );
}

/** What an address asks for; a column that there is not, or that is not sorted, means none. */
function sortingOf<Row>(asked: string, head: readonly SortedColumn<Row>[]): SortingState {
  const desc = asked.startsWith("-");
  const id = desc ? asked.slice(1) : asked;
  return head.some(({ name, value }) => name === id && value) ? [{ id, desc }] : [];
}

function columnsOf<Row extends object>(
  head: readonly SortedColumn<Row>[],
): ColumnDef<typeof features, Row>[] {
  return head.flatMap(({ name, value, searched = false }) =>
    value
      ? [
          {
            id: name,
            accessorFn: (row: Row) => value(row) ?? undefined,
            enableGlobalFilter: searched,
            sortFn: bySize<Row>,
            sortUndefined: "last" as const,
          },
        ]
      : [],
  );
}

/** Numbers by size; texts in any case, and the numbers within them by size. What the library chooses by itself hangs on the first ten rows. */
function bySize<Row extends object>(
  a: TableRow<typeof features, Row>,
  b: TableRow<typeof features, Row>,
  column: string,
): number {
  return (typeof a.getValue(column) === "number" ? sortFn_basic : sortFn_alphanumeric)(
    a,
    b,
    column,
  );
}
