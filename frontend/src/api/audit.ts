// The project's audit log.
import { infiniteQueryOptions, keepPreviousData } from "@tanstack/react-query";
import { get } from "./client";
import type { AuditPage } from "./types";

/** What entries have in them; empty: any. `since` and `until` are times. */
export interface AuditFilter {
  actor: string;
  action: string;
  target: string;
  since: string;
  until: string;
}

export function auditPath(filter: AuditFilter, before: number | null): string {
  const asked = new URLSearchParams({ limit: "50" });
  for (const [name, value] of Object.entries(filter) as [string, string][]) if (value) asked.set(name, value);
  if (before !== null) asked.set("before", String(before));
  return `/v1/audit?${asked.toString()}`;
}

export function auditQuery(filter: AuditFilter) {
  return infiniteQueryOptions({
    queryKey: ["audit", filter],
    queryFn: ({ pageParam }) => get<AuditPage>(auditPath(filter, pageParam)),
    initialPageParam: null as number | null,
    getNextPageParam: (page) => page.next_cursor ?? undefined,
    placeholderData: keepPreviousData,
  });
}
