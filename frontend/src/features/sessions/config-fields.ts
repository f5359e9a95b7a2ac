// The form of a session's options, read from their JSON schema: kind, bounds, default and description of each, and the
// check of what was typed against them. Pure: the form draws these, the server has the last word.

interface Property {
  type?: string;
  enum?: (string | number)[];
  anyOf?: Property[];
  default?: unknown;
  description?: string;
  /** Of an option that is an object. */
  properties?: Record<string, Property>;
  pattern?: string;
  minimum?: number;
  maximum?: number;
  exclusiveMinimum?: number;
  exclusiveMaximum?: number;
}

export interface OptionSchema {
  properties: Record<string, Property>;
}

export type OptionValue = string | number | boolean | null;

export interface ConfigField {
  name: string;
  kind: "integer" | "number" | "boolean" | "choice" | "text";
  /** Empty means none. */
  nullable: boolean;
  choices: (string | number)[];
  default: OptionValue;
  description: string;
  pattern?: string;
  minimum?: number;
  maximum?: number;
  exclusiveMinimum?: number;
  exclusiveMaximum?: number;
}

/** Every option of the schema, in its order. Those of an object are named by their path: `engine_correction.weight`. */
export function configFields(schema: OptionSchema): ConfigField[] {
  const properties = Object.entries(schema.properties).flatMap(([name, property]) =>
    property.properties
      ? Object.entries(property.properties).map(([part, one]) => [`${name}.${part}`, one] as const)
      : [[name, property] as const],
  );
  return properties.map(([name, property]) => {
    const variants = property.anyOf ?? [property];
    const main = variants.find((variant) => variant.type !== "null") ?? property;
    return {
      ...main,
      name,
      kind: kindOf(main),
      nullable: variants.some((variant) => variant.type === "null"),
      choices: main.enum ?? [],
      default: (property.default ?? null) as OptionValue,
      // the wire's word for it is Python's, and the form's is "not set"
      description: (property.description ?? "").replace(/\bnone: /gi, "Not set: "),
    };
  });
}

/** Options by their paths, as `configFields` names them, made into the objects that a server takes. */
export function nested(values: Record<string, unknown>): Record<string, unknown> {
  const whole: Record<string, unknown> = {};
  for (const [path, value] of Object.entries(values)) {
    const [name = "", part] = path.split(".");
    whole[name] =
      part === undefined ? value : { ...(whole[name] as object | undefined), [part]: value };
  }
  return whole;
}

/** The other way: a session's options by the paths of `fields`. */
export function byPath<Value>(
  config: Record<string, unknown>,
  fields: ConfigField[],
): Record<string, Value> {
  const objects = new Set(
    fields.filter(({ name }) => name.includes(".")).map(({ name }) => name.split(".")[0]),
  );
  const entries = Object.entries(config).flatMap(([name, value]) =>
    objects.has(name)
      ? Object.entries(value as object).map(
          ([part, one]) => [`${name}.${part}`, one as unknown] as const,
        )
      : [[name, value] as const],
  );
  return Object.fromEntries(entries) as Record<string, Value>;
}

function kindOf(property: Property): ConfigField["kind"] {
  if (property.enum) return "choice";
  if (property.type === "string") return "text";
  return property.type === "boolean" || property.type === "integer" ? property.type : "number";
}

const UNREACHED = 2 ** 31; // a bound that nobody types past by accident says nothing

/** "2 to 256", "over 0, at most 0.01"; empty where anything goes. */
export function boundsText(field: ConfigField): string {
  const { minimum, maximum, exclusiveMinimum, exclusiveMaximum } = field;
  if (minimum !== undefined && maximum !== undefined)
    return `${plain(minimum)} to ${plain(maximum)}`;
  const low =
    exclusiveMinimum !== undefined
      ? `over ${plain(exclusiveMinimum)}`
      : minimum !== undefined
        ? `at least ${plain(minimum)}`
        : "";
  const high =
    exclusiveMaximum !== undefined && exclusiveMaximum < UNREACHED
      ? `below ${plain(exclusiveMaximum)}`
      : maximum !== undefined
        ? `at most ${plain(maximum)}`
        : "";
  return [low, high].filter(Boolean).join(", ");
}

function plain(value: number): string {
  return value >= 10_000 ? value.toLocaleString("en") : String(value);
}

/** The default as the form shows it. */
export function defaultText(field: ConfigField): string {
  return field.default === null ? "" : String(field.default);
}

type Parsed = { ok: true; value: OptionValue } | { ok: false; error: string };

const wrong = (error: string): Parsed => ({ ok: false, error });

/** What was typed, as a value within the field's bounds, or what is wrong with it. */
export function parseField(field: ConfigField, text: string): Parsed {
  const typed = text.trim();
  if (field.kind === "boolean")
    return { ok: true, value: typed === "" && field.nullable ? null : typed === "true" };
  if (field.kind === "choice") {
    const choice = field.choices.find((one) => String(one) === typed);
    return choice === undefined
      ? wrong(`Choose one of ${field.choices.join(", ")}.`)
      : { ok: true, value: choice };
  }
  if (field.kind === "text") {
    const fits = new RegExp(field.pattern ?? "").test(typed);
    return fits ? { ok: true, value: typed } : wrong("Use small letters, digits and hyphens.");
  }
  if (typed === "") return field.nullable ? { ok: true, value: null } : wrong("Enter a number.");
  const value = Number(typed);
  if (!Number.isFinite(value)) return wrong("This is not a number.");
  if (field.kind === "integer" && !Number.isInteger(value)) return wrong("Enter a whole number.");
  const outside =
    value < (field.minimum ?? -Infinity) ||
    value > (field.maximum ?? Infinity) ||
    value <= (field.exclusiveMinimum ?? -Infinity) ||
    value >= (field.exclusiveMaximum ?? Infinity);
  return outside ? wrong(`Must be ${boundsText(field)}.`) : { ok: true, value };
}

/** Only what differs from the defaults, so that a default that changes on the server is not frozen by an open form. */
export function readForm(fields: ConfigField[], texts: Record<string, string>) {
  const values: Record<string, OptionValue> = {};
  const errors: Record<string, string> = {};
  for (const field of fields) {
    const parsed = parseField(field, texts[field.name] ?? defaultText(field));
    if (!parsed.ok) errors[field.name] = parsed.error;
    else if (parsed.value !== field.default) values[field.name] = parsed.value;
  }
  return { values, errors };
}
