// What a page shows while its first data is on the way: the place that it will take.

const WIDTHS = ["w-1/3", "w-3/4", "w-2/3"];

/** `isTable`: as tall as a table of a few rows, which moves nothing when it comes. */
export function Loading({ isTable = false }: { isTable?: boolean }) {
  if (isTable) return <TableSkeleton />;
  return (
    <div role="status" className="space-y-3 p-4">
      <span className="sr-only">Loading…</span>
      {WIDTHS.map((width) => (
        <span
          key={width}
          aria-hidden
          className={`block h-4 animate-pulse rounded bg-line motion-reduce:animate-none ${width}`}
        />
      ))}
    </div>
  );
}

const ROWS = 8;

function TableSkeleton() {
  return (
    <div role="status" className="divide-y divide-line">
      <span className="sr-only">Loading…</span>
      <span aria-hidden className="block h-8" />
      {Array.from({ length: ROWS }, (_, row) => (
        <span key={row} aria-hidden className="flex h-14 items-center px-4">
          <span
            className={`block h-4 animate-pulse rounded bg-line motion-reduce:animate-none ${WIDTHS[row % WIDTHS.length] ?? ""}`}
          />
        </span>
      ))}
    </div>
  );
}
