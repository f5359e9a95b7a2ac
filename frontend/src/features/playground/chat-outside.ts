// A call of an endpoint elsewhere. A page of this server reaches this server alone, which passes the call on.
import { api, longFetch, unwrap } from "../../api/client";
import type { ChatBody } from "../../ui/call-snippets";
import { wholeAnswer, type Delta, type Endpoint } from "./chat-stream";

/** Whether calls go to this server itself. */
export function isOurs(baseUrl: string): boolean {
  return (
    URL.canParse(baseUrl, location.origin) &&
    new URL(baseUrl, location.origin).origin === location.origin
  );
}

/** Its whole answer at once. Raises ApiError, and Error with the endpoint's own words. */
export async function chatOutside(
  { baseUrl, key }: Endpoint,
  body: ChatBody,
  signal: AbortSignal,
): Promise<Delta> {
  const call = {
    base_url: baseUrl,
    api_key: key,
    body: body as unknown as Record<string, unknown>,
  };
  const { status, body: answer } = await unwrap(
    api.POST("/v1/outside-calls", { body: call, fetch: longFetch, signal }),
  );
  return wholeAnswer(status, answer);
}
