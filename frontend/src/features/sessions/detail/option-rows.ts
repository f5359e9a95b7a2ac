// Every option that a session runs with, what differs from its default first.
import type { Session } from "../../../api/types";
import { byPath, type ConfigField, type OptionValue } from "../config-fields";

interface OptionRow {
  name: string;
  value: string;
  /** As text; empty where this page does not know the option. */
  default: string;
  isChanged: boolean;
  description: string;
}

/** A map of names, which the form does not offer, is written by a program. */
type Shown = OptionValue | Record<string, OptionValue>;

// What a session without episodes takes of its options: of the others its client decides by each call, or nothing does.
const OF_RUNTIME = new Set([
  "devices",
  "dtype",
  "idle_suspend_s",
  "lora_rank",
  "max_context_length",
  "max_tokens",
  "nodes",
  "place",
  "placement",
  "trainer_ranks",
]);

/** Those that count for a session of this kind; what the server `decided` nobody has changed. */
export function optionRows(
  fields: ConfigField[],
  options: object,
  kind: Session["kind"] = "episodes",
  decided: readonly string[] = [],
): OptionRow[] {
  const config = byPath<Shown>(options as Record<string, unknown>, fields);
  const known = new Map(fields.map((field) => [field.name, field]));
  const counts = Object.entries(config).filter(
    ([name]) => kind === "episodes" || OF_RUNTIME.has(name),
  );
  const rows = counts.map(([name, value]): OptionRow => {
    const field = known.get(name);
    return {
      name,
      value: valueText(value),
      default: field ? valueText(field.default) : "",
      isChanged: !decided.includes(name) && (!field || field.default !== value),
      description:
        kind === "tinker" && name === "lora_rank"
          ? "The largest rank that a model of its clients may have."
          : (field?.description ?? ""),
    };
  });
  return rows.sort(
    (a, b) => Number(b.isChanged) - Number(a.isChanged) || a.name.localeCompare(b.name),
  );
}

export function valueText(value: Shown): string {
  if (value === null) return "not set";
  if (typeof value === "object") {
    return Object.entries(value)
      .map(([name, to]) => `${name}: ${valueText(to)}`)
      .join(", ");
  }
  if (typeof value === "boolean") return value ? "true" : "false";
  return typeof value === "number"
    ? value.toLocaleString("en", { maximumSignificantDigits: 9, useGrouping: false })
    : value;
}
