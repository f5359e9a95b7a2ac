// Where the marks of a chart stand in it, and which of them are too close to be told apart.

export interface Marker {
  /** Unlike that of any other. */
  key: string;
  kind: string;
  /** Where on the axis. */
  x: number;
  /** CSS variable of its colour. */
  colour: string;
  text: string;
  to: string;
}

/** The plotted part of a chart in CSS pixels of its box, and what of the axis it shows. */
export interface Place {
  left: number;
  top: number;
  width: number;
  height: number;
  min: number;
  max: number;
}

interface Cluster {
  /** Right of the plotted part's left edge. */
  px: number;
  markers: readonly [Marker, ...Marker[]];
}

const APART_PX = 10; // closer ticks could not be told apart, nor pointed at
const MOST_LINES = 8;

/** From left to right; what is outside of the shown range is left out. */
export function clustersOf(markers: readonly Marker[], { min, max, width }: Place): Cluster[] {
  if (!(max > min)) return [];
  const clusters: { px: number; markers: [Marker, ...Marker[]] }[] = [];
  for (const marker of [...markers].sort((a, b) => a.x - b.x)) {
    if (marker.x < min || marker.x > max) continue;
    const px = ((marker.x - min) / (max - min)) * width;
    const last = clusters[clusters.length - 1];
    if (last && px - last.px < APART_PX) last.markers.push(marker);
    else clusters.push({ px, markers: [marker] });
  }
  return clusters;
}

/** The colours of what happened in one place, each kind once. */
export function coloursOf(markers: readonly Marker[]): string[] {
  return [...new Set(markers.map(({ colour }) => colour))];
}

/** A line for each mark, the first of many. */
export function markersText(markers: readonly Marker[]): string {
  const lines = markers.slice(0, MOST_LINES).map(({ text }) => text);
  if (markers.length > MOST_LINES) lines.push(`and ${String(markers.length - MOST_LINES)} more`);
  return lines.join("\n");
}
