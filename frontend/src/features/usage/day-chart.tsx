// Use by day as stacked bars; each says its day and its parts when it is pointed at.
import { span } from "../../ui/format";
import { visible } from "../../ui/plain-text";
import type { Bar } from "./day-bars";

const HEIGHT = 120;
const GAP = 0.15; // of a bar's width

export function DayChart({ bars }: { bars: readonly Bar[] }) {
  const most = Math.max(0, ...bars.map(({ seconds }) => seconds));
  const top = bars.find(({ seconds }) => seconds === most);
  const spoken =
    top && most > 0
      ? `Device time by day, most on ${top.date}: ${span(most)}`
      : "Device time by day: none";
  return (
    <figure className="px-4 pt-3">
      <figcaption className="flex justify-between text-xs text-muted tabular-nums">
        <span>Device time by day (UTC)</span>
        <span className="whitespace-nowrap">{most > 0 ? `at most ${span(most)}` : ""}</span>
      </figcaption>
      <svg
        role="img"
        aria-label={spoken}
        viewBox={`0 0 ${String(Math.max(1, bars.length))} ${String(HEIGHT)}`}
        preserveAspectRatio="none"
        className="mt-1 h-32 w-full border-b border-line-strong"
      >
        {bars.map((bar, at) => (
          <DayBar key={bar.date} bar={bar} at={at} most={most} />
        ))}
      </svg>
      <div aria-hidden className="mt-1 flex justify-between text-xs text-muted tabular-nums">
        <span>{bars[0]?.date}</span>
        <span>{bars.length > 1 && bars[bars.length - 1]?.date}</span>
      </div>
    </figure>
  );
}

function DayBar({
  bar: { date, parts, seconds },
  at,
  most,
}: {
  bar: Bar;
  at: number;
  most: number;
}) {
  if (most === 0) return null;
  const scale = HEIGHT / most;
  return (
    <g>
      <title>
        {[
          `${date}: ${span(seconds)}`,
          ...parts.map((part) => `${visible(part.name)} ${span(part.seconds)}`),
        ].join("\n")}
      </title>
      <rect x={at} y={0} width={1} height={HEIGHT} fill="transparent" />
      {parts.map((part, place) => {
        const below = parts.slice(0, place).reduce((sum, other) => sum + other.seconds, 0);
        const height = part.seconds * scale;
        return (
          <rect
            key={place}
            x={at + GAP / 2}
            width={1 - GAP}
            y={HEIGHT - below * scale - height}
            height={height}
            style={{ fill: `var(--series-${String(part.colour)})` }}
          />
        );
      })}
    </g>
  );
}
