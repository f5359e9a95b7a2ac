// What a column asks: a model that is served, or the present policy of a run, by an episode that is not trained.
import { post } from "../../api/client";
import { createServingKey, servedModel } from "../../api/serving";
import type { Session } from "../../api/types";

export const MOST_COLUMNS = 4;

/** A key for calls, what to name in them, and what to do when they are over. */
export interface Access {
  key: string;
  model: string;
  release: () => Promise<unknown>;
}

interface Begun {
  episode_id: string;
  api_key: string;
  model: string;
}

const NOTHING = () => Promise.resolve();

export async function open(session: Session): Promise<Access> {
  if (session.kind === "serving") {
    const made = await createServingKey(session.id, 1);
    return { key: made.api_key, model: made.model, release: NOTHING };
  }
  const episodes = `/v1/sessions/${session.id}/episodes`;
  const begun = await post<Begun>(episodes, { eval: true });
  return { key: begun.api_key, model: begun.model, release: () => post(`${episodes}/${begun.episode_id}/abandon`, { reason: "playground" }) };
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
