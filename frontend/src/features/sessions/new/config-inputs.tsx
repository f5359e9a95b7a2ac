// The options of a session as inputs, in titled groups.
import { SelectField, TextField } from "../../../ui/field";
import { visible } from "../../../ui/plain-text";
import { boundsText, defaultText, type ConfigField } from "../config-fields";
import type { FieldGroup } from "./config-layout";
import { KEPT } from "./run-again";

interface ConfigInputsProps {
  groups: FieldGroup[];
  fields: ConfigField[];
  texts: Record<string, string>;
  /** Values of a run that the form has no input for, by option. */
  kept: Record<string, unknown>;
  errors: Record<string, string>;
  onChange: (name: string, text: string) => void;
}

export function ConfigInputs({ groups, fields, texts, kept, errors, onChange }: ConfigInputsProps) {
  const byName = new Map(fields.map((field) => [field.name, field]));
  return groups.map((group) => (
    <fieldset key={group.title} className="px-4 py-4">
      <legend className="sr-only">{group.title}</legend>
      <p aria-hidden className="mb-3 text-xs font-semibold tracking-wide text-muted uppercase">
        {group.title}
      </p>
      <div className="grid grid-cols-2 gap-x-5 gap-y-4 lg:grid-cols-4">
        {group.names.map((name) => {
          const field = byName.get(name);
          return (
            field && (
              <ConfigInput
                key={name}
                field={field}
                text={texts[name] ?? (name in kept ? KEPT : defaultText(field))}
                kept={kept[name]}
                error={errors[name]}
                onChange={(text) => {
                  onChange(name, text);
                }}
              />
            )
          );
        })}
      </div>
    </fieldset>
  ));
}

interface ConfigInputProps {
  field: ConfigField;
  text: string;
  kept: unknown;
  error: string | undefined;
  onChange: (text: string) => void;
}

function ConfigInput({ field, text, kept, error, onChange }: ConfigInputProps) {
  const bounds = boundsText(field);
  const keptText =
    text === KEPT &&
    `Kept from the run: ${visible(JSON.stringify(kept))}. Another choice drops it.`;
  const description = [
    keptText,
    field.description,
    bounds && `${bounds[0]?.toUpperCase() ?? ""}${bounds.slice(1)}.`,
  ]
    .filter(Boolean)
    .join(" ");
  const label = readable(field.name);
  if (field.kind === "choice" || field.kind === "boolean") {
    const open = field.nullable ? [""] : []; // the server's own choice
    const choices =
      field.kind === "boolean" ? [...open, "true", "false"] : field.choices.map(String);
    return (
      <SelectField
        label={label}
        description={description}
        error={error}
        name={field.name}
        value={text}
        onChange={(event) => {
          onChange(event.target.value);
        }}
      >
        {kept !== undefined && <option>{KEPT}</option>}
        {choices.map((choice) => (
          <option key={choice} value={choice}>
            {field.kind === "boolean"
              ? { "": "default", true: "yes", false: "no" }[choice]
              : choice}
          </option>
        ))}
      </SelectField>
    );
  }
  return (
    <TextField
      label={label}
      description={description}
      error={error}
      name={field.name}
      inputMode={field.kind === "text" ? "text" : "decimal"}
      className="tabular-nums"
      placeholder={field.nullable ? "not set" : undefined}
      value={text}
      onChange={(event) => {
        onChange(event.target.value);
      }}
    />
  );
}

const ACRONYMS: Record<string, string> = {
  adam: "Adam",
  dro: "DRO",
  grpo: "GRPO",
  kl: "KL",
  lora: "LoRA",
  lr: "LR",
  s: "(s)",
  zero: "ZeRO",
};

/** "episode_idle_timeout_s" as "Episode idle timeout (s)". */
function readable(name: string): string {
  const words = name.split(/[_.]/).map((word) => ACRONYMS[word] ?? word);
  const text = words.join(" ");
  return `${text[0]?.toUpperCase() ?? ""}${text.slice(1)}`;
}
