// A session's turn and budget: what the form takes, what the wire wants, and how a limit reads.
import type { BudgetEnd } from "../../live/record";
import type { SessionCreate } from "../../api/types";
import { number, span } from "../../ui/format";
import { defaultText, parseField, type ConfigField } from "./config-fields";

const HOUR_S = 3600;

interface TurnField extends ConfigField {
  label: string;
}

const field = { nullable: true, choices: [], default: null };

/** Named by their path in the body, as the server names them when it refuses one. */
export const TURN_FIELDS: TurnField[] = [
  {
    ...field,
    name: "priority",
    label: "Priority",
    kind: "integer",
    nullable: false,
    default: 0,
    minimum: -100,
    maximum: 100,
    description: "Among the project's own queued sessions, higher goes first. -100 to 100.",
  },
  {
    ...field,
    name: "budget.steps",
    label: "Step budget",
    kind: "integer",
    minimum: 1,
    description: "It stops after this many steps.",
  },
  {
    ...field,
    name: "budget.wall_s",
    label: "Wall time budget (h)",
    kind: "number",
    minimum: 0.02,
    description: "Hours since it was created, waiting included.",
  },
  {
    ...field,
    name: "budget.device_s",
    label: "Device budget (h)",
    kind: "number",
    minimum: 0.02,
    description: "One GPU for an hour is one; a session without a GPU counts as one GPU.",
  },
];

type Turn = Required<Pick<SessionCreate, "priority" | "budget">>;

/** What was typed as the wire wants it: hours become seconds; or what is wrong, by field. */
export function readTurn(texts: Record<string, string>): {
  values: Turn;
  errors: Record<string, string>;
} {
  const values: Record<string, number | null> = {};
  const errors: Record<string, string> = {};
  for (const one of TURN_FIELDS) {
    const parsed = parseField(one, texts[one.name] ?? defaultText(one));
    if (parsed.ok) values[one.name] = parsed.value as number | null;
    else errors[one.name] = parsed.error;
  }
  const inSeconds = (name: string) => (values[name] ? Math.round(values[name] * HOUR_S) : null);
  const budget = {
    steps: values["budget.steps"] ?? null,
    wall_s: inSeconds("budget.wall_s"),
    device_s: inSeconds("budget.device_s"),
  };
  return { values: { priority: values.priority ?? 0, budget }, errors };
}

const LIMITS: Record<string, string> = {
  steps: "steps",
  wall_s: "wall time",
  device_s: "device time",
  spend_cap_s: "the spending cap of the key that started it",
};

/** "3 steps", "1 h 30 min". */
function limitText(limit: string, value: number): string {
  return limit === "steps" ? `${number(value)} ${value === 1 ? "step" : "steps"}` : span(value);
}

/** Which limit a session reached, in a sentence. */
export function budgetEndText({ limit, allowed, used }: BudgetEnd): string {
  return `Limit on ${LIMITS[limit] ?? limit}: ${limitText(limit, used)} used of ${limitText(limit, allowed)}.`;
}
