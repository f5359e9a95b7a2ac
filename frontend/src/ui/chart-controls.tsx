// What the charts of a page stand over and how much they are smoothed. It is in the address: a link shows the same curves.
import { useAddress } from "./address-part";
import { Button } from "./button";
import { AXES, axisOf, zoomOf } from "./chart-axis";
import { Options } from "./choices";
import { inputClass } from "./field";
import { MAX_SMOOTHING, type Smoothing } from "./smoothing";

/** Whether an address asks for values by their powers of ten. */
export function isLog(address: URLSearchParams): boolean {
  return address.get("y") === "log";
}

interface ChartControlsProps {
  smoothing: Smoothing;
  /** Whether the charts can stand over something else. */
  hasAxes?: boolean;
}

export function ChartControls({ smoothing, hasAxes = true }: ChartControlsProps) {
  const [address, setAddress] = useAddress();
  const { weight, setWeight } = smoothing;
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
              setAddress({ x: chosen === "step" ? "" : chosen, zoom: "" });
            }}
          >
            <Options of={AXES} />
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
          value={weight}
          aria-valuetext={weight === 0 ? "none" : String(weight)}
          onChange={(event) => {
            setWeight(event.target.valueAsNumber);
          }}
        />
        <span className="w-8 text-muted tabular-nums">{weight === 0 ? "none" : weight}</span>
      </label>
      <label className="flex items-center gap-2" title="All charts but those of rewards">
        <input
          type="checkbox"
          checked={isLog(address)}
          onChange={(event) => {
            setAddress({ y: event.target.checked ? "log" : "" });
          }}
        />
        Logarithmic
      </label>
      {zoomOf(address) && (
        <Button
          look="quiet"
          className="h-7! text-xs"
          onClick={() => {
            setAddress({ zoom: "" });
          }}
        >
          Show the whole range
        </Button>
      )}
    </div>
  );
}
