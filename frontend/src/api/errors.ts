// What the API, or a proxy before it, returned instead of a result.
import type { ErrorBody } from "./types";

/** `status` is 0 where no answer came. `fields` maps a field's path to what is wrong with it. */
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

/** What is wrong with the fields that were sent, by their paths; nothing where the error is another one. */
export function fieldsOf(error: Error | null): Record<string, string> {
  return error instanceof ApiError ? error.fields : {};
}

export function unreachable(): ApiError {
  return new ApiError(
    0,
    "unreachable",
    "The server does not answer.",
    "Check that it runs and that you are online, then try again.",
  );
}

export function signedOut(): ApiError {
  return new ApiError(
    401,
    "unauthenticated",
    "Your sign-in has ended.",
    "Sign in, then do it again: what you typed is kept.",
  );
}

/** Whether no answer came at all. */
export function isUnreachable(error: unknown): boolean {
  return error instanceof ApiError && error.status === 0;
}

/** Whether the same request may be answered otherwise in a moment: no response came, too many, not now, a failure. */
export function mayPass(error: Error): boolean {
  return (
    error instanceof ApiError && ([0, 408, 409, 429].includes(error.status) || error.status >= 500)
  );
}

/** A response that is not the API's own: a proxy's page, say. */
export function unexpected(status: number): ApiError {
  const what =
    status < 300
      ? "The server returned what cannot be read."
      : `The server returned ${String(status)}.`;
  return new ApiError(status, "unexpected", what, "Try again in a moment.");
}

/** The error of a response. A body that is not the API's own still gives a message. */
export function apiError(status: number, body: unknown): ApiError {
  const { error, request_id: requestId } = (body ?? {}) as {
    error?: Partial<ErrorBody["error"]> | string | null;
    request_id?: string;
  };
  if (typeof error !== "object" || !error?.message) return unexpected(status);
  const { code = "unexpected", message, hint, details = {} } = error;
  return new ApiError(status, code, message, hint, fieldErrors(details.fields), requestId, details);
}

/** `details.fields` is a list of {field, problem}. */
function fieldErrors(fields: unknown): Record<string, string> {
  if (!Array.isArray(fields)) return {};
  return Object.fromEntries(
    (fields as { field: string; problem: string }[]).map(({ field, problem }) => [field, problem]),
  );
}
