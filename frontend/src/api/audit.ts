// The project's audit log.
import { infiniteQueryOptions, keepPreviousData } from "@tanstack/react-query";
import { unwrap, api } from "./client";

/** What entries have in them; empty: any. `since` and `until` are times. */
export interface AuditFilter {
  actor: string;
  action: string;
  target: string;
  since: string;
  until: string;
}

export function auditPage(
  { actor, action, target, since, until }: AuditFilter,
  before: number | null,
) {
  const query = {
    limit: 50,
    before,
    actor: actor || undefined,
    action: action || undefined,
    target: target || undefined,
    since: since || null,
    until: until || null,
  };
  return unwrap(api.GET("/v1/audit", { params: { query } }));
}

export function auditQuery(filter: AuditFilter) {
  return infiniteQueryOptions({
    queryKey: ["audit", filter],
    queryFn: ({ pageParam }) => auditPage(filter, pageParam),
    initialPageParam: null as number | null,
    getNextPageParam: (page) => page.next_cursor ?? undefined,
    placeholderData: keepPreviousData,
  });
}
