// What the audit log is narrowed to. It stands in the page's address.
import type { AuditFilter } from "../../api/audit";
import { rangeOf } from "../../ui/date-range";

/** Actions are shown with spaces and kept with underscores. */
export function filterOf(address: URLSearchParams): AuditFilter {
  const part = (name: string) => (address.get(name) ?? "").trim();
  return {
    actor: part("actor"),
    action: part("action").replaceAll(" ", "_"),
    target: part("target"),
    ...rangeOf(address),
  };
}

export function isFiltered(filter: AuditFilter): boolean {
  return Object.values(filter).some(Boolean);
}
