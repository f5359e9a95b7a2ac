// Any text as a string of CSS: run names stand in the heads of tables, and every member may name a run.
import { visible } from "./plain-text";

/** `text` in quotes, its own quotes and backslashes escaped, and nothing in it that is not seen. */
export function cssString(text: string): string {
  const plain = visible(text).replace(/\s+/g, " ");
  return `"${plain.replace(/["\\]/g, "\\$&")}"`;
}
