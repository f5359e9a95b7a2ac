// How the episodes of a step spread, as small bars. What each bar counts is read at it, and by screen readers in full.
import { number } from "../../../ui/format";
import { Word } from "../../../ui/word";
import type { Spread } from "./spread";

const HEIGHT_PX = 56;

export function StepSpread({ spreads }: { spreads: readonly Spread[] }) {
  if (spreads.length === 0) return null;
  return (
    <div className="cells rounded-lg border border-line sm:grid-cols-2 lg:grid-cols-[repeat(auto-fit,minmax(11rem,1fr))]">
      {spreads.map((spread) => (
        <Bars key={spread.title} {...spread} />
      ))}
    </div>
  );
}

function Bars({ title, unit, bars }: Spread) {
  const most = Math.max(...bars.map(({ count }) => count), 1);
  const filled = bars.filter(({ count }) => count > 0);
  const [first] = bars;
  const last = bars[bars.length - 1];
  return (
    <figure className="min-w-0 bg-surface px-4 py-3">
      <figcaption className="text-xs font-medium">
        <Word text={title} /> <span className="font-normal text-muted">{unit}</span>
      </figcaption>
      <div
        role="img"
        aria-label={`${title}: ${filled.map(({ text, count }) => `${text}: ${number(count)}`).join(", ")}`}
        className="mt-2 flex items-end gap-px"
        style={{ height: HEIGHT_PX }}
      >
        {bars.map(({ text, count }) => (
          <span
            key={text}
            title={`${text}: ${number(count)}`}
            className="flex h-full max-w-16 flex-1 items-end bg-sunken"
          >
            <span
              className="w-full bg-[var(--series-1)]"
              style={{ height: count === 0 ? 0 : Math.max(2, (count / most) * HEIGHT_PX) }}
            />
          </span>
        ))}
      </div>
      <p aria-hidden className="mt-1 flex justify-between gap-2 text-xs text-muted tabular-nums">
        <span>{first?.text.split(" to ")[0]}</span>
        {bars.length > 1 && <span>{last?.text.split(" to ").at(-1)}</span>}
      </p>
    </figure>
  );
}
