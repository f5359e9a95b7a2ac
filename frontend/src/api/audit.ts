// The project's audit log.
import { infiniteQueryOptions } from "@tanstack/react-query";
import { get } from "./client";
import type { AuditPage } from "./types";

export const auditQuery = infiniteQueryOptions({
  queryKey: ["audit"],
  queryFn: ({ pageParam }) => get<AuditPage>(`/v1/audit?limit=50${pageParam === null ? "" : `&before=${String(pageParam)}`}`),
  initialPageParam: null as number | null,
  getNextPageParam: (page) => page.next_cursor ?? undefined,
});
