// A chart to take away: its values as CSV, as they were measured, and its picture as PNG.
import type { Axis } from "./chart-axis";
import type { Series } from "./chart-data";

const HEAD_PX = 30;
const PAD_PX = 12;

/** A row for each place on the axis; of a point of several steps its extremes too. */
export function csvOf(axis: Axis, x: readonly number[], series: readonly Series[]): string {
  const columns: [string, readonly (number | null)[]][] = series.flatMap(
    ({ label, values, raw, low, high }): [string, readonly (number | null)[]][] => [
      [label, raw ?? values],
      ...(low && high
        ? ([
            [`${label}, low`, low],
            [`${label}, high`, high],
          ] satisfies [string, (number | null)[]][])
        : []),
    ],
  );
  const rows = x.map((place, at) =>
    [place, ...columns.map(([, values]) => values[at] ?? "")].join(","),
  );
  return [[axis, ...columns.map(([name]) => name)].map(csvCell).join(","), ...rows, ""].join(
    "\r\n",
  );
}

/** A name as a cell: quoted where it has to be, and no formula for a spreadsheet. */
export function csvCell(text: string): string {
  const plain = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(plain) ? `"${plain.replaceAll('"', '""')}"` : plain;
}

/** "Learning rate" as "learning-rate.png". */
export function fileName(title: string, ending: string): string {
  const words = title
    .toLowerCase()
    .replace(/[^\p{L}\p{N}]+/gu, "-")
    .replace(/^-|-$/g, "");
  return `${words || "chart"}.${ending}`;
}

/** What is drawn of a plot now, under its title and the names of its lines. */
export function pngOf(
  drawn: HTMLCanvasElement,
  title: string,
  series: readonly Series[],
  page: HTMLElement,
): Promise<Blob | null> {
  const scale = devicePixelRatio;
  const style = getComputedStyle(page);
  const colour = (name: string) => style.getPropertyValue(name).trim();
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [
    drawn.width + 2 * PAD_PX * scale,
    drawn.height + (HEAD_PX + PAD_PX) * scale,
  ];
  const picture = canvas.getContext("2d");
  if (!picture) return Promise.resolve(null);
  picture.fillStyle = colour("--surface");
  picture.fillRect(0, 0, canvas.width, canvas.height);
  picture.drawImage(drawn, PAD_PX * scale, HEAD_PX * scale);
  picture.scale(scale, scale);
  picture.textBaseline = "middle";
  let left = PAD_PX;
  const write = (text: string, name: string, weight: number) => {
    picture.font = `${String(weight)} 12px ${style.fontFamily}`;
    picture.fillStyle = colour(name);
    picture.fillText(text, left, HEAD_PX / 2 + 2);
    left += picture.measureText(text).width + PAD_PX;
  };
  write(title, "--ink", 600);
  if (series.length > 1) for (const one of series) write(`— ${one.label}`, one.colour, 400);
  return new Promise((resolve) => {
    canvas.toBlob(resolve, "image/png");
  });
}
