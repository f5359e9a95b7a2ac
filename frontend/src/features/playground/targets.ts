// What a column asks: a model that is served, or the current policy of a run, by an episode that is not trained.
import { unwrap, api } from "../../api/client";
import { createServingKey, servedModel } from "../../api/serving";
import type { Session } from "../../api/types";

export const MOST_COLUMNS = 4;

/** How long an episode may take: it ends by itself where the page could not end it. */
const EPISODE_S = 300;

/** A key for calls, what to name in them, and what to do when they are over, however often it is said. */
export interface Access {
  key: string;
  model: string;
  release: () => Promise<unknown>;
}

const NOTHING = () => Promise.resolve();

export async function open(session: Session): Promise<Access> {
  if (session.kind === "serving") {
    const made = await createServingKey(session.id, 1);
    return { key: made.api_key, model: made.model, release: NOTHING };
  }
  const body = { eval: true, timeout_s: EPISODE_S };
  const begun = await unwrap(api.POST("/v1/sessions/{session_id}/episodes", { params: { path: { session_id: session.id } }, body }));
  const path = { session_id: session.id, episode_id: begun.episode_id };
  // Also sent where the page is being closed.
  const abandon = () => unwrap(api.POST("/v1/sessions/{session_id}/episodes/{episode_id}/abandon", { params: { path }, body: { reason: "playground" }, keepalive: true }));
  let released: Promise<unknown> | undefined;
  const release = () => (released ??= abandon());
  return { key: begun.api_key, model: begun.model, release };
}

export function nameOf(session: Session): string {
  const name = session.name === session.id ? "" : session.name;
  if (session.kind === "serving") return name || servedModel(session);
  return `${name || session.id}, version ${String(session.policy_version)}`;
}

/** The sessions of the columns as the address has them; without any, the first that there is. */
export function columnsOf(address: URLSearchParams, known: Session[]): string[] {
  const given = (address.get("columns") ?? "").split(",").filter(Boolean).slice(0, MOST_COLUMNS);
  const first = known[0];
  return given.length > 0 || !first ? given : [first.id];
}

/** A key for each of `count` columns: those that there are, then new ones. */
export function columnKeys(keys: readonly number[], count: number): number[] {
  const all = keys.slice(0, count);
  while (all.length < count) all.push(Math.max(-1, ...all) + 1);
  return all;
}
