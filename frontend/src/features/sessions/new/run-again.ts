// A session's options as the form's texts: another run begins with what this one had, or goes on from what it trained.
import type { Session } from "../../../api/types";
import { byPath, defaultText, type ConfigField, type OptionValue } from "../config-fields";

const HOUR_S = 3600;

export interface Start {
  baseModel: string;
  name: string;
  texts: Record<string, string>;
  /** Options that the form has no input for: a map of names, say. They go with what is typed. */
  kept: Record<string, unknown>;
}

export const EMPTY: Start = { baseModel: "", name: "", texts: {}, kept: {} };

export function startOf(
  session: Pick<
    Session,
    "id" | "name" | "base_model" | "started_from" | "config" | "decided" | "priority" | "budget"
  >,
  fields: ConfigField[],
  checkpoint = "",
): Start {
  const config = byPath<OptionValue | object>(
    session.config as unknown as Record<string, unknown>,
    fields,
  );
  const texts: Record<string, string> = {};
  const kept: Record<string, unknown> = {};
  for (const field of fields) {
    const value = config[field.name];
    // What model and loss decided is left to those that are chosen now.
    if (value === undefined || session.decided.includes(field.name)) continue;
    if (typeof value === "object" && value !== null) kept[field.name] = value;
    else if (textOf(value) !== defaultText(field)) texts[field.name] = textOf(value);
  }
  const { steps, wall_s: wallS, device_s: deviceS } = session.budget;
  if (session.priority !== 0) texts.priority = String(session.priority);
  if (steps !== null) texts["budget.steps"] = String(steps);
  if (wallS !== null) texts["budget.wall_s"] = String(wallS / HOUR_S);
  if (deviceS !== null) texts["budget.device_s"] = String(deviceS / HOUR_S);
  const began = checkpoint || session.started_from?.checkpoint_id;
  return {
    baseModel: began ?? session.base_model,
    name: session.name === session.id ? "" : session.name,
    texts,
    kept,
  };
}

function textOf(value: OptionValue): string {
  return value === null ? "" : String(value);
}

/** The choice of an input that stands for the run's own value, for which the form has no input. */
export const KEPT = "kept from the run";

/** The texts after `text` was typed or chosen for an option. The kept value is no text: it stands where there is none. */
export function withText(
  texts: Record<string, string>,
  name: string,
  text: string,
): Record<string, string> {
  const others = Object.fromEntries(Object.entries(texts).filter(([one]) => one !== name));
  return text === KEPT ? others : { ...others, [name]: text };
}

/** Whether a base model's name is that of something trained: with a state, an option that is left out is the state's. */
export function isTrained(baseModel: string): boolean {
  return baseModel.startsWith("ckp_") || baseModel.startsWith("tinker://");
}

/** What is sent: what was typed, and of the kept options those in whose place nothing was typed. */
export function withKept(
  values: Record<string, OptionValue>,
  { kept }: Start,
  texts: Record<string, string>,
): Record<string, unknown> {
  const untouched = Object.fromEntries(
    Object.entries(kept).filter(([name]) => texts[name] === undefined),
  );
  return { ...untouched, ...values };
}
