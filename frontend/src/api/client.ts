// The API as this browser's user: session cookie, CSRF token, deadline, and the API's error body as an exception.
// Paths, parameters and responses are those of the generated document: one that it does not have fails the type check.
import createClient, { type Middleware } from "openapi-fetch";
import { apiError, ApiError, signedOut, unexpected, unreachable } from "./errors";
import { DEMO, isDemo } from "./offline";
import { chosenProject } from "./project";
import type { paths } from "./schema";
import type { FromServer } from "./types";

const DEADLINE_MS = 30_000;
const LONG_DEADLINE_MS = 600_000;

const fetchWithin = (deadlineMs: number) => (request: Request) =>
  fetch(request, { signal: AbortSignal.timeout(deadlineMs) });

/** The `fetch` of a request whose response may take the server minutes. */
export const longFetch = fetchWithin(LONG_DEADLINE_MS);

const sessionMiddleware: Middleware = {
  async onRequest({ request, schemaPath }) {
    const { "X-Project-Id": project, ...others } = await headers(request.method, schemaPath);
    for (const [name, value] of Object.entries(others)) request.headers.set(name, value);
    // A request may name another one itself.
    if (project !== undefined && !request.headers.has("X-Project-Id"))
      request.headers.set("X-Project-Id", project);
  },
};
/** What the server says of such a request is for programs: it speaks of keys. */
const signedOutMiddleware: Middleware = {
  onResponse({ response }) {
    if (response.status === 401) throw signedOut();
  },
};
const errorMiddleware: Middleware = {
  onError: unreachable,
};

const origin = typeof location === "undefined" ? "http://localhost" : location.origin;

export const api = createClient<paths>({
  baseUrl: isDemo ? origin + DEMO : origin,
  credentials: "same-origin",
  fetch: fetchWithin(DEADLINE_MS),
});
api.use(sessionMiddleware, signedOutMiddleware, errorMiddleware);

/** The API for somebody who has nothing but a link's token: a sign-in that this browser has is not sent. */
export function apiByToken(token: string): typeof api {
  const client = createClient<paths>({
    baseUrl: origin,
    credentials: "omit",
    headers: { Accept: "application/json", Authorization: `Bearer ${token}` },
    fetch: fetchWithin(DEADLINE_MS),
  });
  client.use(errorMiddleware);
  return client;
}

/** What was asked for; raises ApiError and nothing else: a refusal, a failure, no response, one that cannot be read. The server writes every field. */
export async function unwrap<T>(
  asked: Promise<{ data?: T; error?: unknown; response: Response }>,
): Promise<FromServer<T>> {
  const { data, error, response } = await asked.catch((cause: unknown) => {
    throw readingError(cause);
  });
  if (!response.ok) throw apiError(response.status, error);
  return data as FromServer<T>;
}

/** The body is read after the middleware: a line that breaks, or a page in the place of JSON, is first seen here. */
function readingError(cause: unknown): ApiError {
  if (cause instanceof ApiError) return cause;
  return cause instanceof SyntaxError ? unexpected(200) : unreachable();
}

/** Have the browser keep a file that the API itself sends: asked for here because a plain link names no project. */
export function saveBlob(blob: Blob, fileName: string): void {
  const url = URL.createObjectURL(blob);
  save(url, fileName);
  URL.revokeObjectURL(url);
}

/** Have the browser keep what is at `url`. The store's own URLs name the file themselves. */
export function save(url: string, fileName: string): void {
  const link = document.createElement("a");
  link.href = url;
  link.download = fileName;
  link.click();
}

/** A request to what the document does not have: sign-in and sign-up. Raises ApiError only when no answer came at all. */
export async function request(method: string, path: string, body?: unknown): Promise<Response> {
  const sent = await headers(method, path);
  if (body !== undefined) sent["Content-Type"] = "application/json";
  const signal = AbortSignal.timeout(DEADLINE_MS);
  return fetch(path, {
    method,
    headers: sent,
    body: body === undefined ? null : JSON.stringify(body),
    credentials: "same-origin",
    signal,
  }).catch(() => {
    throw unreachable();
  });
}

async function headers(method: string, path: string): Promise<Record<string, string>> {
  const sent: Record<string, string> = { Accept: "application/json" };
  if (method !== "GET") sent["X-CSRFToken"] = await csrfToken();
  // Whose account it is does not depend on the project: so a choice that is no longer theirs can be found out.
  if (chosenProject() && path !== "/v1/account") sent["X-Project-Id"] = chosenProject();
  return sent;
}

/** Django's token for writes; the first answer of the sign-in API sets its cookie. */
async function csrfToken(): Promise<string> {
  const read = () => /(?:^|; )csrftoken=([^;]+)/.exec(document.cookie)?.[1] ?? "";
  if (!read()) await request("GET", "/_allauth/browser/v1/auth/session");
  return read();
}
