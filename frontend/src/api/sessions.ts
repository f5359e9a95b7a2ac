// Training sessions.
import { infiniteQueryOptions, keepPreviousData, queryOptions } from "@tanstack/react-query";
import { unwrap, api, longFetch, saveBlob } from "./client";
import { ApiError } from "./errors";
import { isExported } from "./offline";
import type {
  ConfigChange,
  ConfigUpdate,
  EpisodeExport,
  Project,
  Session,
  SessionCreate,
  SessionLogs,
  SessionPlan,
  SessionSort,
  SessionState,
  SessionUpdate,
} from "./types";

const PAGE = 50;
const REFRESH_MS = 5_000;
const LIVE_REFRESH_MS = 60_000;
const UNTOLD_SORTS: readonly SessionSort[] = ["active", "device_time"]; // each heartbeat moves them: the channel does not tell
const QUEUED = 200; // the most that one request may ask for
const LOG_LINES = 200;

export const ENDED_STATES: readonly SessionState[] = ["stopped", "failed", "cancelled"];

/** Nothing more will happen in this session, or come to these pages. */
export function hasEnded(session: Session): boolean {
  return isExported || ENDED_STATES.includes(session.state);
}

export interface SessionFilter {
  /** None of them: every state. */
  states: readonly SessionState[];
  /** Part of the name, in any case. */
  name: string;
  tag?: string;
  /** An option and its value: "grpo_n=8". */
  option?: string;
  /** The name of a base model. */
  model?: string;
  /** Created from this time on, and before that one. */
  since?: string;
  until?: string;
  pinned?: boolean;
  sort?: SessionSort;
  /** Of sort "measure": the measure of the last step. */
  sortBy?: string;
  /** A bound on a measure of the last step: "metrics/turns>=3". */
  measure?: string;
  /** The other way round. */
  reverse?: boolean;
  /** None of them: every kind. */
  kinds?: readonly Session["kind"][];
  /** Each with the measures of its last step. */
  measures?: boolean;
}

/** What every list of sessions is kept under, whatever its filter. */
export const sessionsKey = ["sessions"];

export function sessionsPage(filter: SessionFilter, cursor: string, limit = PAGE) {
  const {
    states,
    name,
    tag,
    option,
    model,
    since,
    until,
    pinned,
    sort,
    sortBy,
    measure,
    reverse,
    kinds = [],
    measures,
  } = filter;
  const narrowed = {
    state: [...states],
    kind: [...kinds],
    name: name || null,
    tag: tag ? [tag] : [],
    config: option ? [option] : [],
    measure: measure ? [measure] : [],
    base_model: model || null,
  };
  const query = {
    limit,
    ...narrowed,
    since: since || null,
    until: until || null,
    pinned: pinned || null,
    sort,
    sort_by: sortBy || undefined,
    reverse: reverse || undefined,
    measures: measures || undefined,
    cursor: cursor || null,
  };
  return unwrap(api.GET("/v1/sessions", { params: { query } }));
}

/** The parameters of a request about one session. */
export function at(session_id: string): { params: { path: { session_id: string } } };
export function at<Query>(
  session_id: string,
  query: Query,
): { params: { path: { session_id: string }; query: Query } };
export function at(session_id: string, query?: unknown) {
  return { params: { path: { session_id }, ...(query !== undefined && { query }) } };
}

/** `isLive`: a live channel tells what moves; what it does not tell, such as a new name, comes within a minute. */
export function sessionsQuery(filter: SessionFilter, isLive = false) {
  const isTold = isLive && !(filter.sort && UNTOLD_SORTS.includes(filter.sort));
  return infiniteQueryOptions({
    queryKey: [...sessionsKey, filter],
    queryFn: ({ pageParam }) => sessionsPage(filter, pageParam),
    initialPageParam: "",
    getNextPageParam: (page) => page.next_cursor ?? undefined,
    placeholderData: keepPreviousData,
    // All pages are asked for together: so many times more rarely, one request in five seconds however long the list.
    refetchInterval: (query) =>
      (isTold ? LIVE_REFRESH_MS : REFRESH_MS) * Math.max(1, query.state.data?.pages.length ?? 1),
  });
}

/** Every queued session as far as one request brings them; the next one to start first. */
export const queueQuery = queryOptions({
  queryKey: [...sessionsKey, "queue"],
  queryFn: async () => {
    const page = await sessionsPage({ states: ["queued"], name: "" }, "", QUEUED);
    return { ...page, items: inTurn(page.items) };
  },
  refetchInterval: 5_000,
});

export function inTurn(queued: readonly Session[]): Session[] {
  const place = ({ queue_position: position }: Session) => position ?? Infinity;
  return [...queued].sort((a, b) => (place(a) === place(b) ? 0 : place(a) - place(b)));
}

/** Phase, queue position and episode counts come with heartbeats and are no entries of the record: so it is asked again. */
export function sessionQuery(id: string) {
  return queryOptions({
    queryKey: ["session", id],
    queryFn: () => unwrap(api.GET("/v1/sessions/{session_id}", at(id))),
    refetchInterval: (query) => (isFinal(query.state.data, query.state.error) ? false : 2_000),
  });
}

/** Which of these projects has the session: a link may lead into another than the one that is open. Null: none of them. */
export async function projectOf(
  id: string,
  projects: readonly Pick<Project, "id">[],
): Promise<string | null> {
  for (const project of projects) {
    const found = await unwrap(
      api.GET("/v1/sessions/{session_id}", { ...at(id), headers: { "X-Project-Id": project.id } }),
    ).catch((error: unknown) => {
      if (error instanceof ApiError && error.status === 404) return null;
      throw error;
    });
    if (found) return project.id;
  }
  return null;
}

/** Asking again would bring nothing new: it has ended, or was refused (signed out, removed, in another project). */
function isFinal(session: Session | undefined, error: Error | null): boolean {
  return isRefused(error) || (session !== undefined && hasEnded(session));
}

export function isRefused(error: Error | null): boolean {
  return error instanceof ApiError && error.status >= 400 && error.status < 500;
}

/** For `retry`: twice, unless it was refused. */
export function unlessRefused(failures: number, error: Error): boolean {
  return failures < 2 && !isRefused(error);
}

/** What the session's runtime, or its last one, wrote last: asked for when shown, and again when the user wants it. */
export function logsQuery(id: string, containing: string, lines = LOG_LINES) {
  return queryOptions({
    queryKey: ["session", id, "logs", containing, lines],
    queryFn: () => logsRead(id, { lines, q: containing || undefined }),
    placeholderData: keepPreviousData,
  });
}

/** What was written after the place where `before` ends, added to it; the last `most` lines of both. */
export async function logsGoOn(
  id: string,
  containing: string,
  before: SessionLogs,
  most: number,
): Promise<SessionLogs> {
  const asked = { lines: most, q: containing || undefined, after: before.cursor };
  return joinLogs(before, await logsRead(id, asked), most);
}

function logsRead(id: string, query: { lines: number; q?: string; after?: string }) {
  return unwrap(api.GET("/v1/sessions/{session_id}/logs", at(id, query)));
}

export function joinLogs(before: SessionLogs, more: SessionLogs, most: number): SessionLogs {
  if (more.is_cut) return more;
  const [first = "", ...rest] = more.lines;
  const last = before.lines[before.lines.length - 1];
  const lines =
    more.continues && last !== undefined
      ? [...before.lines.slice(0, -1), last + first, ...rest]
      : [...before.lines, ...more.lines];
  return { ...before, cursor: more.cursor, lines: lines.slice(-most) };
}

export function createSession(body: SessionCreate): Promise<Session> {
  return unwrap(api.POST("/v1/sessions", { body }));
}

/** What creating it would start; nothing is started. */
export function planSession(body: SessionCreate): Promise<SessionPlan> {
  return unwrap(api.POST("/v1/sessions/dry-run", { body }));
}

export function updateSession(id: string, change: SessionUpdate): Promise<Session> {
  return unwrap(api.PATCH("/v1/sessions/{session_id}", { ...at(id), body: change }));
}

/** Let a run train its next steps with other options; it is woken and waited for where it is suspended. */
export function changeConfig(id: string, change: ConfigUpdate): Promise<ConfigChange> {
  return unwrap(api.PATCH("/v1/sessions/{session_id}/config", { ...at(id), body: change }));
}

export function stopSession(id: string): Promise<Session> {
  return unwrap(api.POST("/v1/sessions/{session_id}/stop", at(id)));
}

export function suspendSession(id: string): Promise<Session> {
  return unwrap(api.POST("/v1/sessions/{session_id}/suspend", at(id)));
}

export function resumeSession(id: string): Promise<Session> {
  return unwrap(api.POST("/v1/sessions/{session_id}/resume", at(id)));
}

export function deleteSession(id: string): Promise<void> {
  return unwrap(api.DELETE("/v1/sessions/{session_id}", at(id)));
}

/** A batch as a file of JSON lines, by its step or by the name that its refusal gave it. */
export async function downloadBatch(id: string, batch: string): Promise<void> {
  const params = { path: { session_id: id, batch } };
  const lines: unknown = await unwrap(
    api.GET("/v1/sessions/{session_id}/batches/{batch}", {
      params,
      parseAs: "blob",
      fetch: longFetch,
    }),
  );
  saveBlob(lines as Blob, `${id}-batch-${batch}.jsonl`);
}

/** URLs of every archived episode as Parquet; they expire. */
export function exportEpisodes(id: string): Promise<EpisodeExport> {
  return unwrap(api.GET("/v1/sessions/{session_id}/episodes/export", at(id)));
}
