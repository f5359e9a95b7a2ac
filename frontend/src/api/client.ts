// One fetch for the whole console: session cookie, CSRF token, deadline, and the API's error body as an exception.
import { chosenProject } from "./project";
import type { ErrorBody } from "./types";

const DEADLINE_MS = 30_000;
const LONG_DEADLINE_MS = 600_000;

/** What the API, or a proxy before it, returned instead of a result. `fields` maps a field's path to what is wrong with it. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly hint = "",
    readonly fields: Record<string, string> = {},
    readonly requestId = "",
    readonly details: Record<string, unknown> = {},
  ) {
    super(message);
  }
}

export function get<T>(path: string): Promise<T> {
  return send("GET", path);
}

export function post<T>(path: string, body: unknown = {}): Promise<T> {
  return send("POST", path, body);
}

/** Also sent where the page is being closed; the body is small. */
export function postKeepalive<T>(path: string, body: unknown): Promise<T> {
  return send("POST", path, body, { keepalive: true });
}

export function patch<T>(path: string, body: unknown): Promise<T> {
  return send("PATCH", path, body);
}

/** `isLong`: what it removes may take the server minutes. */
export function remove<T>(path: string, { isLong = false } = {}): Promise<T> {
  return send("DELETE", path, undefined, isLong ? { deadlineMs: LONG_DEADLINE_MS } : {});
}

/** A file that the API itself sends, for the browser to keep: asked for here because a plain link names no project. */
export async function download(path: string, fileName: string): Promise<void> {
  const response = await request("GET", path, undefined, { deadlineMs: LONG_DEADLINE_MS });
  if (!response.ok) throw apiError(response.status, await response.json().catch(() => null));
  const url = URL.createObjectURL(await response.blob());
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

interface RequestOptions {
  deadlineMs?: number;
  keepalive?: boolean;
}

async function send<T>(method: string, path: string, body?: unknown, options: RequestOptions = {}): Promise<T> {
  const response = await request(method, path, body, options);
  if (!response.ok) throw apiError(response.status, await response.json().catch(() => null));
  return (response.status === 204 ? undefined : await response.json()) as T;
}

/** A request as this browser's user. Raises ApiError only when no answer came at all. */
export async function request(method: string, path: string, body?: unknown, { deadlineMs = DEADLINE_MS, keepalive = false }: RequestOptions = {}): Promise<Response> {
  const headers: Record<string, string> = { Accept: "application/json" };
  if (method !== "GET") headers["X-CSRFToken"] = await csrfToken();
  // Whose account it is does not depend on the project: so a choice that is no longer theirs can be found out.
  if (chosenProject() && path !== "/v1/account") headers["X-Project-Id"] = chosenProject();
  if (body !== undefined) headers["Content-Type"] = "application/json";
  try {
    return await fetch(path, {
      method,
      headers,
      body: body === undefined ? null : JSON.stringify(body),
      credentials: "same-origin",
      keepalive,
      signal: AbortSignal.timeout(deadlineMs),
    });
  } catch {
    throw new ApiError(0, "unreachable", "The server does not answer.", "Check that it runs and that you are online, then try again.");
  }
}

/** The error of an answer. A body that is not the API's own (a proxy's page, say) still gives a message. */
export function apiError(status: number, body: unknown): ApiError {
  const error = (body as ErrorBody | null)?.error;
  if (!error) return new ApiError(status, "unexpected", `The server returned ${String(status)}.`, "Try again in a moment.");
  const { code, message, hint, details } = error;
  return new ApiError(status, code, message, hint, fieldErrors(details.fields), (body as ErrorBody).request_id, details);
}

/** `details.fields` is a list of {field, problem}. */
function fieldErrors(fields: unknown): Record<string, string> {
  if (!Array.isArray(fields)) return {};
  return Object.fromEntries((fields as { field: string; problem: string }[]).map(({ field, problem }) => [field, problem]));
}

/** Django's token for writes; the first answer of the sign-in API sets its cookie. */
async function csrfToken(): Promise<string> {
  const read = () => /(?:^|; )csrftoken=([^;]+)/.exec(document.cookie)?.[1] ?? "";
  if (!read()) await request("GET", "/_allauth/browser/v1/auth/session");
  return read();
}
