// A program that starts a session with the same options, and ends it.
import type { Session } from "../../../api/types";
import { python } from "../../../ui/call-snippets";
import { nested } from "../config-fields";

const WIDTH = 88;

/** `changed`: the names of the options that differ from their defaults. */
export function sdkProgram(
  session: Pick<Session, "base_model" | "started_from" | "config">,
  changed: readonly string[],
): string {
  const config = session.config as unknown as Record<string, unknown>;
  const options = nested(Object.fromEntries(changed.map((path) => [path, at(config, path)])));
  const given = [
    JSON.stringify(session.started_from?.checkpoint_id ?? session.base_model),
    ...Object.entries(options).map(([name, value]) => `${name}=${python(value)}`),
  ];
  const line = `with TinkerScript(${given.join(", ")}) as session:`;
  const begins =
    line.length <= WIDTH
      ? line
      : `with TinkerScript(\n${given.map((one) => `    ${one},\n`).join("")}) as session:`;
  return `from tinkerscript import TinkerScript

${begins}  # it ends with the block
    print(session.id)  # here comes your loop
`;
}

function at(config: Record<string, unknown>, path: string): unknown {
  const [name = "", part] = path.split(".");
  return part === undefined ? config[name] : (config[name] as Record<string, unknown>)[part];
}
