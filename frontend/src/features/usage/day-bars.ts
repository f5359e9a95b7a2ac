// Days of use as stacked bars, where who used most has the first colour and beyond seven all others share the last; and as a table for a spreadsheet.
import type { UsageDays } from "../../api/types";
import { csvCell } from "../../ui/chart-files";

const COLOURS = 8; // as styles.css has them
const DAY_MS = 86_400_000;

export interface Part {
  name: string;
  /** 1 to COLOURS. */
  colour: number;
  seconds: number;
}

export interface Bar {
  date: string;
  seconds: number;
  /** From the axis up, those with none left out. */
  parts: Part[];
}

/** The colour of each payer by its place in the list, the most used first. */
export function colourOf(place: number): number {
  return Math.min(place + 1, COLOURS);
}

/** Every day of the period, those without use too. */
export function barsOf({ first, last, days, payers }: UsageDays): Bar[] {
  const places = new Map(payers.map(({ id }, place) => [id, place]));
  const byDate = new Map<string, Part[]>();
  for (const { date, id, device_s: seconds } of days) {
    const place = places.get(id) ?? payers.length;
    const parts = byDate.get(date) ?? [];
    parts.push({ name: payers[place]?.name ?? "", colour: colourOf(place), seconds });
    byDate.set(date, parts);
  }
  return datesOf(first, last).map((date) => {
    const parts = (byDate.get(date) ?? [])
      .filter(({ seconds }) => seconds > 0)
      .sort((a, b) => a.colour - b.colour);
    return { date, parts, seconds: parts.reduce((sum, part) => sum + part.seconds, 0) };
  });
}

export function datesOf(first: string, last: string): string[] {
  const [begin, end] = [Date.parse(first), Date.parse(last)];
  const count = Math.round((end - begin) / DAY_MS) + 1;
  return Array.from({ length: Math.max(0, count) }, (_, at) => isoDay(begin + at * DAY_MS));
}

/** The day in UTC, as the server counts. */
function isoDay(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10);
}

export interface Period {
  first: string;
  last: string;
}

const DAY = /^\d{4}-\d\d-\d\d$/;
export const LENGTHS = [7, 30, 90, 365];

/** Of an address: its `days` up to today, or its own days `from` and `to`. */
export function periodOf(address: URLSearchParams, now: number): Period {
  const typed = (name: string) =>
    DAY.test(address.get(name) ?? "") ? (address.get(name) ?? "") : "";
  const last = typed("to") || isoDay(now);
  const days = LENGTHS.find((length) => String(length) === address.get("days")) ?? 30;
  return { first: typed("from") || isoDay(Date.parse(last) - (days - 1) * DAY_MS), last };
}

/** A row for each day and payer. */
export function usageCsv({ by, days, payers, prices }: UsageDays): string {
  const names = new Map(payers.map(({ id, name }) => [id, name]));
  const head = [
    "date",
    "id",
    by,
    "device_s",
    "gpu_s",
    "runtime_s",
    ...(prices ? [`cost_${prices.currency}`] : []),
  ];
  const rows = days.map(({ date, id, device_s: device, gpu_s: gpu, runtime_s: runtime, cost }) =>
    [
      date,
      csvCell(id ?? ""),
      csvCell(names.get(id) ?? ""),
      device,
      gpu,
      runtime,
      ...(prices ? [cost ?? ""] : []),
    ].join(","),
  );
  return [head.join(","), ...rows, ""].join("\r\n");
}
