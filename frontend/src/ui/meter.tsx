// How much of a limit is used, as a bar: calm, then a warning from four fifths on, then full.

interface MeterProps {
  label: string;
  /** What is used as a share of the limit; above 1 it is full. */
  share: number;
}

export function Meter({ label, share }: MeterProps) {
  const percent = Math.round(Math.min(1, Math.max(0, share)) * 100);
  const tone = share >= 1 ? "bg-bad" : share >= 0.8 ? "bg-warn" : "bg-accent";
  return (
    <span
      role="meter"
      aria-label={label}
      aria-valuemin={0}
      aria-valuemax={100}
      aria-valuenow={percent}
      className="mt-1 block h-1.5 w-full overflow-hidden rounded-full bg-sunken"
    >
      <span className={`block h-full ${tone}`} style={{ width: `${String(percent)}%` }} />
    </span>
  );
}
