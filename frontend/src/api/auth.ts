// Sign-up, sign-in and sign-out: the browser client of django-allauth's headless API, whose error body is its own.
import { request } from "./client";
import { ApiError, apiError } from "./errors";

const BASE = "/_allauth/browser/v1";

/** An identity provider of the server; `id` is its part of `/sign-in/{id}/begin`. */
interface Provider {
  id: string;
  name: string;
}

export interface Answer {
  data?: {
    flows?: { id: string; is_pending?: boolean }[];
    socialaccount?: { providers: Provider[] };
  };
  meta?: Record<string, unknown>;
  errors?: { message: string; param?: string }[];
}

export interface Credentials {
  email: string;
  password: string;
}

export function signUp(credentials: Credentials): Promise<void> {
  return authenticate("signup", credentials);
}

export function signIn(credentials: Credentials): Promise<void> {
  return authenticate("login", credentials);
}

export async function signOut(): Promise<void> {
  const response = await request("DELETE", `${BASE}/auth/session`);
  if (response.status !== 401)
    throw new ApiError(response.status, "unexpected", "Signing out did not work.", "Try again.");
}

interface Confirmation {
  /** Of the mailed link. */
  key: string;
  /** Of the account: needed in another browser than the one that signed up or is signed in. */
  password?: string;
}

/** The answer may still ask for a sign-in: that is no failure. */
export async function verifyEmail(wanted: Confirmation): Promise<void> {
  const { status, answer } = await allauth("POST", "auth/email/verify", wanted);
  if (status === 200 || status === 401) return;
  const error = authError(status, answer);
  if (error.fields.key)
    throw new ApiError(
      status,
      "invalid_request",
      "This link is not valid any more.",
      "Set a new password by mail: that confirms the address too.",
    );
  throw error;
}

/** The code of an authenticator app, or a recovery code: the second step of a sign-in that asked for it. */
export async function confirmCode(code: string): Promise<void> {
  const { status, answer } = await allauth("POST", "auth/2fa/authenticate", { code });
  if (status === 409)
    throw new ApiError(
      status,
      "conflict",
      "The sign-in took too long.",
      "Begin again with your password.",
    );
  if (status !== 200) throw authError(status, answer);
}

/** Whether there is such an account is not said. */
export async function requestReset(email: string): Promise<void> {
  const { status, answer } = await allauth("POST", "auth/password/request", { email });
  if (status !== 200) throw authError(status, answer);
}

interface NewPassword {
  /** Of the mailed link. */
  key: string;
  password: string;
  /** Whether the account's API keys end with the old password. */
  end_keys: boolean;
}

/** 401: done, and now sign in. */
export async function resetPassword(wanted: NewPassword): Promise<void> {
  const { status, answer } = await allauth("POST", "auth/password/reset", wanted);
  if (status === 200 || status === 401) return;
  const error = authError(status, answer);
  if (error.fields.key)
    throw new ApiError(
      status,
      "invalid_request",
      "This link is not valid any more.",
      "Ask for a new one.",
    );
  throw error;
}

/** The identity providers that people sign in with; most servers have one or none. */
export async function providerList(): Promise<Provider[]> {
  const { answer } = await allauth("GET", "config");
  return answer.data?.socialaccount?.providers ?? [];
}

/** Leave for the identity provider's page. It sends the browser back to `next`, a path of this server. */
export async function signInByProvider(id: string, next: string): Promise<void> {
  const response = await request("POST", `/sign-in/${id}/begin?next=${encodeURIComponent(next)}`);
  const body: unknown = await response.json().catch(() => null);
  if (!response.ok) throw apiError(response.status, body);
  window.location.assign((body as { location: string }).location);
}

/** Whether the browser has come back from the identity provider signed in. */
export async function sessionCheck(): Promise<void> {
  const { status, answer } = await allauth("GET", "auth/session");
  if (status !== 200) throw authError(status, answer);
}

/** One request to allauth, with its answer as it is. */
export async function allauth(
  method: string,
  path: string,
  body?: unknown,
): Promise<{ status: number; answer: Answer }> {
  const response = await request(method, `${BASE}/${path}`, body);
  return { status: response.status, answer: (await response.json().catch(() => ({}))) as Answer };
}

async function authenticate(action: string, credentials: Credentials): Promise<void> {
  const response = await request("POST", `${BASE}/auth/${action}`, credentials);
  if (response.ok) return;
  if (response.status === 409) return; // Signed in already, in another tab.
  throw authError(response.status, (await response.json().catch(() => ({}))) as Answer);
}

/** allauth's answer as our error: 400 names fields, 401 with a pending flow asks for one more step. */
export function authError(status: number, answer: Answer): ApiError {
  if (status === 429)
    return new ApiError(
      status,
      "rate_limited",
      "Too many attempts.",
      "Wait a minute, then try again.",
    );
  if (status === 403)
    return new ApiError(
      status,
      "forbidden",
      "This server does not take new accounts.",
      "Ask its administrator for one.",
    );
  if (answer.data?.flows?.some((flow) => flow.id === "verify_email" && flow.is_pending)) {
    return new ApiError(
      status,
      "verify_email",
      "Confirm your e-mail address.",
      "Open the link that was sent to it, then sign in.",
    );
  }
  if (answer.data?.flows?.some((flow) => flow.id === "mfa_authenticate" && flow.is_pending)) {
    return new ApiError(
      status,
      "second_factor",
      "A code is needed.",
      "Open your authenticator app.",
    );
  }
  const errors = answer.errors ?? [];
  const fields = Object.fromEntries(
    errors.flatMap((error) => (error.param ? [[error.param, error.message]] : [])),
  );
  const general =
    errors.find((error) => !error.param)?.message ??
    (errors.length ? "" : `The server returned ${String(status)}.`);
  return new ApiError(status, "invalid_request", general, "", fields);
}
