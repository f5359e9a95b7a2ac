// What a key may do, in words.
import type { Scope } from "../../api/types";

const NAMES: Record<Scope, string> = {
  "sessions:read": "See sessions",
  "sessions:write": "Start and stop sessions",
  episodes: "Play episodes",
  "checkpoints:read": "Download checkpoints",
  admin: "Administer the project",
};
const OFFERED: readonly Scope[] = [
  "sessions:read",
  "sessions:write",
  "episodes",
  "checkpoints:read",
];

/** Those that the form of a new key offers. */
export const SCOPES = OFFERED.map((value) => ({ value, name: NAMES[value] }));

export function scopesText(scopes: readonly Scope[]): string {
  const text = scopes.map((scope) => NAMES[scope].toLowerCase()).join(", ");
  return text.charAt(0).toUpperCase() + text.slice(1);
}
