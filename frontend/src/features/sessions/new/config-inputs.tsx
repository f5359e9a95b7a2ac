// The options of a session, its priority and its budget as inputs, in titled groups.
import type { ReactNode } from "react";
import { SelectField } from "../../../ui/choices";
import { TextField } from "../../../ui/field";
import { visible } from "../../../ui/plain-text";
import { TURN_FIELDS } from "../budget";
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
  return groups.map(({ title, names }) => (
    <Group key={title} title={title}>
      {names.map((name) => {
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
    </Group>
  ));
}

/** `note`: what is said below its inputs. */
function Group({ title, note, children }: { title: string; note?: string; children: ReactNode }) {
  return (
    <fieldset className="px-4 py-4">
      <legend className="sr-only">{title}</legend>
      <p aria-hidden className="mb-3 text-xs font-semibold tracking-wide text-muted uppercase">
        {title}
      </p>
      <div className="grid grid-cols-2 gap-x-5 gap-y-4 lg:grid-cols-4">{children}</div>
      {note && <p className="mt-3 text-xs text-muted">{note}</p>}
    </fieldset>
  );
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
        onChange={onChange}
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
      onChange={onChange}
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

type BudgetInputsProps = Pick<ConfigInputsProps, "texts" | "errors" | "onChange">;

export function BudgetInputs({ texts, errors, onChange }: BudgetInputsProps) {
  return (
    <Group
      title="Priority and budget"
      note="At a limit the session writes a model checkpoint and stops."
    >
      {TURN_FIELDS.map((field) => (
        <TextField
          key={field.name}
          label={field.label}
          description={field.description}
          error={errors[field.name]}
          name={field.name}
          inputMode="decimal"
          className="tabular-nums"
          placeholder={field.nullable ? "no limit" : undefined}
          value={texts[field.name] ?? defaultText(field)}
          onChange={(text) => {
            onChange(field.name, text);
          }}
        />
      ))}
    </Group>
  );
}
