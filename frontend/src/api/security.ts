// What guards the account: address, password, second factor, signed-in browsers. django-allauth's headless API.
import { queryOptions } from "@tanstack/react-query";
import { allauth, authError } from "./auth";
import { ApiError } from "./errors";

export interface Address {
  email: string;
  verified: boolean;
  primary: boolean;
}
interface Authenticator {
  type: "totp" | "recovery_codes";
  unused_code_count?: number;
}
interface Browser {
  id: number;
  user_agent: string;
  ip: string;
  created_at: number;
  is_current: boolean;
}
export interface Enrolment {
  secret: string;
  totp_url: string;
}

export const addressesQuery = queryOptions({
  queryKey: ["addresses"],
  queryFn: () => data<Address[]>("GET", "account/email"),
});
export const authenticatorsQuery = queryOptions({
  queryKey: ["authenticators"],
  queryFn: () => data<Authenticator[]>("GET", "account/authenticators"),
});
export const browsersQuery = queryOptions({
  queryKey: ["browsers"],
  queryFn: () => data<Browser[]>("GET", "auth/sessions"),
});

export async function resendConfirmation(email: string): Promise<void> {
  const { status } = await allauth("PUT", "account/email", { email });
  if (status === 403)
    throw new ApiError(
      status,
      "rate_limited",
      "A mail was sent a moment ago.",
      "Look for it, or ask again in three minutes.",
    );
  if (status !== 200)
    throw new ApiError(
      status,
      "unexpected",
      "The mail could not be sent.",
      "Try again in a moment.",
    );
}

export async function changePassword(body: {
  current_password: string;
  new_password: string;
}): Promise<void> {
  await data("POST", "account/password/change", body);
}

/** A fresh secret, to be put into an app; nothing is switched on yet. */
export async function beginEnrolment(): Promise<Enrolment> {
  const { status, answer } = await allauth("GET", "account/authenticators/totp");
  if (status === 409)
    throw new ApiError(
      status,
      "conflict",
      "Confirm your e-mail address first.",
      "Open the link that was sent to it.",
    );
  if (status !== 404) throw authError(status, answer);
  return answer.meta as unknown as Enrolment;
}

/** Switch it on, with the code that the app shows; the codes are for the day on which the telephone is lost. */
export async function enrol({
  password,
  code,
}: {
  password: string;
  code: string;
}): Promise<string[]> {
  await data("POST", "auth/reauthenticate", { password });
  await data("POST", "account/authenticators/totp", { code });
  return (await data<{ unused_codes: string[] }>("GET", "account/authenticators/recovery-codes"))
    .unused_codes;
}

export async function endSecondFactor(password: string): Promise<void> {
  await data("POST", "auth/reauthenticate", { password });
  await data("DELETE", "account/authenticators/totp");
}

/** 401 is what ending the session that asks looks like. */
export async function endBrowsers(sessions: number[]): Promise<void> {
  const { status, answer } = await allauth("DELETE", "auth/sessions", { sessions });
  if (status !== 200 && status !== 401) throw authError(status, answer);
}

async function data<T>(method: string, path: string, body?: unknown): Promise<T> {
  const { status, answer } = await allauth(method, path, body);
  if (status >= 400) throw authError(status, answer);
  return answer.data as T;
}
