// What a page shows while its first data is on the way: the place that it will take.

const WIDTHS = ["w-1/3", "w-3/4", "w-2/3"];

export function Loading() {
  return (
    <div role="status" className="space-y-3 p-4">
      <span className="sr-only">Loading…</span>
      {WIDTHS.map((width) => (
        <span key={width} aria-hidden className={`block h-4 animate-pulse rounded bg-line motion-reduce:animate-none ${width}`} />
      ))}
    </div>
  );
}
