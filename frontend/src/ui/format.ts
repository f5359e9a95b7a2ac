// Numbers, sizes and times as the console writes them.

/** Four significant digits at most, and powers of ten where a plain number would be all zeros. */
export function number(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  if (value === 0 || Number.isInteger(value)) return value.toLocaleString("en");
  const size = Math.abs(value);
  if (size < 1e-3 || size >= 1e9) return Number(value.toPrecision(3)).toExponential();
  if (size >= 1e4) return Math.round(value).toLocaleString("en");
  return String(Number(value.toPrecision(4)));
}

/** An amount as people write it: "€2.50". Below the currency's smallest unit with two digits that say something, "€0.0031". */
export function money(amount: number | null | undefined, currency: string): string {
  if (amount === null || amount === undefined) return "–";
  const format = new Intl.NumberFormat("en", { style: "currency", currency });
  const isTiny =
    amount > 0 && amount < 10 ** -(format.resolvedOptions().maximumFractionDigits ?? 2);
  return (
    isTiny
      ? new Intl.NumberFormat("en", { style: "currency", currency, maximumSignificantDigits: 2 })
      : format
  ).format(amount);
}

/** A price as it was set, to six decimals: "€2.405". */
export function price(amount: number, currency: string): string {
  return new Intl.NumberFormat("en", {
    style: "currency",
    currency,
    maximumFractionDigits: 6,
  }).format(amount);
}

export function bytes(size: number | null | undefined): string {
  if (size === null || size === undefined) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let value = size;
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit === 0 ? String(value) : value.toPrecision(3)} ${units[unit] ?? ""}`;
}

/** 134515008 as "135M". */
export function count(value: number): string {
  return new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 }).format(
    value,
  );
}

export function seconds(value: number): string {
  if (value < 60) return `${number(Number(value.toPrecision(3)))} s`;
  return `${String(Math.floor(value / 60))} min ${String(Math.round(value % 60))} s`;
}

/** A length of time in its two largest units: "45 s", "1 h 30 min", "2 d 3 h". */
export function span(lengthS: number): string {
  const whole = Math.round(lengthS);
  if (whole < 60) return `${String(whole)} s`;
  const units = [
    { name: "d", s: 86_400 },
    { name: "h", s: 3600 },
    { name: "min", s: 60 },
    { name: "s", s: 1 },
  ];
  const at = units.findIndex((unit) => whole >= unit.s);
  const [large, small] = units.slice(at, at + 2);
  if (!large || !small) return "";
  const rest = Math.floor((whole % large.s) / small.s);
  return `${String(Math.floor(whole / large.s))} ${large.name}${rest ? ` ${String(rest)} ${small.name}` : ""}`;
}

export function dateTime(at: string): string {
  return new Date(at).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
}

export function timeOfDay(at: string): string {
  return new Date(at).toLocaleTimeString(undefined, { hour12: false });
}

/** A time within a stretch of `lengthS`: of one that is longer than a day, with the date. */
export function timeWithin(at: string, lengthS: number): string {
  return lengthS > 86_400 ? dateTime(at) : timeOfDay(at);
}

export function restartsText(count: number): string {
  if (count === 0) return "no restart";
  return count === 1 ? "1 restart" : `${number(count)} restarts`;
}

/** How long ago, in the largest unit that fits. */
export function ago(at: string, now = Date.now()): string {
  const passed = Math.max(0, (now - Date.parse(at)) / 1000);
  if (passed < 45) return "just now";
  if (passed < 3600) return `${String(Math.max(1, Math.round(passed / 60)))} min ago`;
  if (passed < 86_400) return `${String(Math.round(passed / 3600))} h ago`;
  return `${String(Math.round(passed / 86_400))} d ago`;
}

/** How long something has waited since `at`. */
export function waited(at: string, now = Date.now()): string {
  return span(Math.max(0, (now - Date.parse(at)) / 1000));
}

export function hasPassed(at: string | null): boolean {
  return at !== null && Date.parse(at) < Date.now();
}
