// The line of a program that starts a session with the same options.
import type { Session } from "../../../api/types";

const WIDTH = 88;

/** `changed`: the names of the options that differ from their defaults. */
export function sdkLine(session: Pick<Session, "base_model" | "started_from" | "config">, changed: readonly string[]): string {
  const config = session.config as unknown as Record<string, unknown>;
  const given = [JSON.stringify(session.started_from?.checkpoint_id ?? session.base_model), ...changed.map((name) => `${name}=${literal(config[name])}`)];
  const line = `TinkerScript(${given.join(", ")})`;
  return line.length <= WIDTH ? line : `TinkerScript(\n${given.map((one) => `    ${one},\n`).join("")})`;
}

/** A JSON string, number, list or map is one of Python too. */
function literal(value: unknown): string {
  if (value === null || value === undefined) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  return JSON.stringify(value);
}
