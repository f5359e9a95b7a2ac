// The product's mark and name; on a telephone its mark alone where it is compact.
export function Wordmark({ compact = false }: { compact?: boolean }) {
  return (
    <span className="inline-flex items-center gap-2 font-semibold tracking-tight">
      <svg aria-hidden viewBox="0 0 32 32" className="size-5">
        <rect width="32" height="32" rx="7" className="fill-accent" />
        <path
          d="M6 23 12 17l5 2.5L26 8"
          fill="none"
          className="stroke-accent-ink"
          strokeWidth="3"
          strokeLinecap="round"
          strokeLinejoin="round"
        />
      </svg>
      <span className={compact ? "hidden sm:inline" : ""}>TinkerScript</span>
    </span>
  );
}
