// What a column asks: a model that is served, the current policy of a run by an episode that is not
// trained, what a Tinker client saved, or an endpoint.
import { unwrap, api } from "../../api/client";
import { createCheckpointKey, createServingKey, servedModel } from "../../api/serving";
import { at } from "../../api/sessions";
import type { Session } from "../../api/types";
import type { Endpoint } from "./chat-stream";

export const MOST_COLUMNS = 4;

/** How long an episode may take: it ends by itself where the page could not end it. */
const EPISODE_S = 300;

/** A column that asks an address of one's own; which, stands in no address. */
export const ENDPOINT = "endpoint";
/** A column whose model is not served yet: a base model, or a checkpoint. */
export const UNSERVED = "serve:";

/** An OpenAI-compatible endpoint, as it was typed. */
export interface Outside extends Endpoint {
  model: string;
}

/** `path`: its name, `tinker://...`. */
export interface Saved {
  sessionId: string;
  checkpointId: string;
  path: string;
}

export type Target = { session: Session } | { saved: Saved } | { outside: Outside };

/** A key for calls, where they go, what to name in them, and what to do when they are over, however often it is said. */
interface Access extends Endpoint {
  model: string;
  release: () => Promise<unknown>;
}

const NOTHING = () => Promise.resolve();

export async function open(target: Target): Promise<Access> {
  if ("outside" in target) return { ...target.outside, release: NOTHING };
  if ("saved" in target) {
    const { sessionId, checkpointId } = target.saved;
    const made = await createCheckpointKey(sessionId, checkpointId, 1);
    return { baseUrl: "/oai/api/v1", key: made.api_key, model: made.model, release: NOTHING };
  }
  const { session } = target;
  const baseUrl = "/openai/v1";
  if (session.kind === "serving") {
    const made = await createServingKey(session.id, 1);
    return { baseUrl, key: made.api_key, model: made.model, release: NOTHING };
  }
  const body = { eval: true, timeout_s: EPISODE_S };
  const begun = await unwrap(
    api.POST("/v1/sessions/{session_id}/episodes", { ...at(session.id), body }),
  );
  const path = { session_id: session.id, episode_id: begun.episode_id };
  // Also sent where the page is being closed.
  const abandon = () =>
    unwrap(
      api.POST("/v1/sessions/{session_id}/episodes/{episode_id}/abandon", {
        params: { path },
        body: { reason: "playground" },
        keepalive: true,
      }),
    );
  let released: Promise<unknown> | undefined;
  const release = () => (released ??= abandon());
  return { baseUrl, key: begun.api_key, model: begun.model, release };
}

export function nameOf(session: Session): string {
  const name = session.name === session.id ? "" : session.name;
  if (session.kind === "serving") return name || servedModel(session);
  return `${name || session.id}, version ${String(session.policy_version)}`;
}

/** The sessions of the columns as the address has them; without any, the first that there is, or a column to choose in. */
export function columnsOf(address: URLSearchParams, known: Session[]): string[] {
  const given = (address.get("columns") ?? "").split(",").filter(Boolean).slice(0, MOST_COLUMNS);
  return given.length > 0 ? given : [known[0]?.id ?? ""];
}

/** Before something was typed: this server's own address for keys of the project. */
export function outsideHere(origin: string): Outside {
  return { baseUrl: `${origin}/oai/api/v1`, key: "", model: "" };
}

/**
 * Which checkpoint a column of this place asks, "saved:SESSION:CHECKPOINT"; null: none that a Tinker
 * client saved.
 */
export function savedIds(place: string): Omit<Saved, "path"> | null {
  const [, sessionId, checkpointId] = /^saved:(ses_\w+):(ckp_\w+)$/.exec(place) ?? [];
  return sessionId && checkpointId ? { sessionId, checkpointId } : null;
}

/** What a column of this place asks; null: nothing can be asked there yet. */
export function targetOf(
  place: string,
  known: Session[],
  outside: Outside,
  path: string | null = null,
): Target | null {
  if (place === ENDPOINT) return outside.model && outside.baseUrl ? { outside } : null;
  const saved = savedIds(place);
  if (saved) return path ? { saved: { ...saved, path } } : null;
  const session = known.find(({ id }) => id === place);
  return session ? { session } : null;
}

/** A key for each of `count` columns: those that there are, then new ones. */
export function columnKeys(keys: readonly number[], count: number): number[] {
  const all = keys.slice(0, count);
  while (all.length < count) all.push(Math.max(-1, ...all) + 1);
  return all;
}
