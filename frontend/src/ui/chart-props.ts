// What a chart is given.
import type { Axis } from "./chart-axis";
import type { Series } from "./chart-data";
import type { Marker } from "./chart-marks";
import type { Range } from "./chart-zoom";

export interface ChartProps {
  title: string;
  unit?: string;
  /** These two are compared by identity: keep them while the data is the same, or every hover draws the chart anew. */
  x: number[];
  series: Series[];
  height?: number;
  axis?: Axis;
  /** Its curves have points at different places: lines lead over the gaps. */
  overlay?: boolean;
  /** Whether values are by their powers of ten. */
  log?: boolean;
  /** Where a click on a point leads: its address and its name. */
  linkOf?: (index: number) => { to: string; text: string } | null;
  /** What of the axis is shown, by identity; null: all of it. Without `onZoom` the chart keeps its range itself. */
  zoom?: Range | null;
  onZoom?: (range: Range | null) => void;
  /** What happened where on the axis. */
  markers?: readonly Marker[];
  /** Whether its marks can be reached by keyboard: of several charts with the same ones, one should have it. */
  hasReadableMarkers?: boolean;
  /** Said where there is no data. */
  placeholder?: string;
  /** Without data: whether some is on its way. */
  isLoading?: boolean;
}
