// What the charts of a page stand over and how much they are smoothed. It is in the address: a link shows the same curves.
import { useAddress, useTypedPart, withPart } from "./address-part";
import { Button } from "./button";
import { AXES, axisOf } from "./chart-axis";
import { zoomOf } from "./chart-zoom";
import { inputClass } from "./field";
import { MAX_SMOOTHING, smoothingOf } from "./smoothing";

// The slider itself follows every key; curves and the address, of which browsers take few changes in a second, follow it.
const PAUSE_MS = 60;

/** Whether an address asks for values by their powers of ten. */
export function isLog(address: URLSearchParams): boolean {
  return address.get("y") === "log";
}

/** `hasAxes`: whether the charts can stand over something else. */
export function ChartControls({ hasAxes = true }: { hasAxes?: boolean }) {
  const [address, setAddress] = useAddress();
  const [typed, setTyped] = useTypedPart("smooth", PAUSE_MS);
  const smoothing = smoothingOf(new URLSearchParams({ smooth: typed }));
  return (
    <div className="flex flex-wrap items-center gap-x-4 gap-y-1 text-xs print:hidden">
      {hasAxes && (
        <label className="flex items-center gap-2">
          Over
          <select
            className={`${inputClass} h-7! w-36! text-xs`}
            value={axisOf(address)}
            onChange={(event) => {
              const chosen = event.target.value;
              setAddress(
                (before) =>
                  withPart(withPart(before, "x", chosen === "step" ? "" : chosen), "zoom", ""),
                { replace: true },
              );
            }}
          >
            {AXES.map(({ value, name }) => (
              <option key={value} value={value}>
                {name}
              </option>
            ))}
          </select>
        </label>
      )}
      <label className="flex items-center gap-2">
        Smoothing
        <input
          type="range"
          min={0}
          max={MAX_SMOOTHING}
          step={0.01}
          value={smoothing}
          aria-valuetext={smoothing === 0 ? "none" : String(smoothing)}
          onChange={(event) => {
            setTyped(event.target.value === "0" ? "" : event.target.value);
          }}
        />
        <span className="w-8 text-muted tabular-nums">{smoothing === 0 ? "none" : smoothing}</span>
      </label>
      <label className="flex items-center gap-2" title="All charts but those of rewards">
        <input
          type="checkbox"
          checked={isLog(address)}
          onChange={(event) => {
            const chosen = event.target.checked;
            setAddress((before) => withPart(before, "y", chosen ? "log" : ""), { replace: true });
          }}
        />
        Logarithmic
      </label>
      {zoomOf(address) && (
        <Button
          look="quiet"
          className="h-7! text-xs"
          onClick={() => {
            setAddress((before) => withPart(before, "zoom", ""), { replace: true });
          }}
        >
          Show the whole range
        </Button>
      )}
    </div>
  );
}
