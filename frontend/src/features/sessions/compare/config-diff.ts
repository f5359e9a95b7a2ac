// What runs were asked to do, option by option.
import type { Session } from "../../../api/types";
import { valueText } from "../detail/option-rows";

export interface DiffRow {
  name: string;
  /** One for each run, in their order; empty where a run has no such option. */
  values: string[];
  differs: boolean;
}

/** Base model, budget and every option, those that differ first. */
export function diffRows(sessions: readonly Session[]): DiffRow[] {
  const asked = sessions.map((session) => ({
    "base model": session.base_model,
    "began from": session.started_from?.checkpoint_id ?? "base model",
    ...Object.fromEntries(
      Object.entries(session.budget).map(([name, value]) => [`budget ${name}`, value]),
    ),
    ...session.config,
  })) as Record<string, Parameters<typeof valueText>[0] | undefined>[];
  const names = [...new Set(asked.flatMap((options) => Object.keys(options)))];
  const rows = names.map((name): DiffRow => {
    const values = asked.map((options) => {
      const value = options[name];
      return value === undefined ? "" : valueText(value);
    });
    return { name, values, differs: new Set(values).size > 1 };
  });
  return rows.sort((a, b) => Number(b.differs) - Number(a.differs));
}
