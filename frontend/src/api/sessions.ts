// Training sessions.
import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";
import { get, post } from "./client";
import type { Page, Session, SessionCreate, SessionState } from "./types";

const ENDED: ReadonlySet<SessionState> = new Set<SessionState>(["stopped", "failed", "cancelled"]);

/** Nothing more will happen in this session. */
export function hasEnded(session: Session): boolean {
  return ENDED.has(session.state);
}

export const sessionsQuery = infiniteQueryOptions({
  queryKey: ["sessions"],
  queryFn: ({ pageParam }) => get<Page<Session>>(`/v1/sessions?limit=50${pageParam ? `&cursor=${encodeURIComponent(pageParam)}` : ""}`),
  initialPageParam: "",
  getNextPageParam: (page) => page.next_cursor ?? undefined,
  refetchInterval: 5_000,
});

/** Phase, queue position and episode counts come with heartbeats and are no entries of the record: so it is asked again. */
export function sessionQuery(id: string) {
  return queryOptions({
    queryKey: ["session", id],
    queryFn: () => get<Session>(`/v1/sessions/${id}`),
    refetchInterval: (query) => (query.state.data && hasEnded(query.state.data) ? false : 2_000),
  });
}

export function createSession(body: SessionCreate): Promise<Session> {
  return post("/v1/sessions", body);
}

export function stopSession(id: string): Promise<Session> {
  return post(`/v1/sessions/${id}/stop`);
}
