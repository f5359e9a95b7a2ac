// What tools are called with and give back, to be read.

/** JSON with its lines and levels; another text as it is. */
export function readable(value: unknown): string {
  if (typeof value !== "string") return JSON.stringify(value, null, 2) ?? "";
  if (!/^\s*[[{]/.test(value) || /\d{16}/.test(value)) return value; // of longer numbers digits would be lost
  try {
    return JSON.stringify(JSON.parse(value), null, 2);
  } catch {
    return value;
  }
}
