// What a page shows while its first data is on the way.

export function Loading() {
  return (
    <p role="status" className="p-2 text-muted">
      Loading…
    </p>
  );
}
