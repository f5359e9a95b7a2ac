// When the session's turn comes and what it may use, as inputs.
import { TextField } from "../../../ui/field";
import { TURN_FIELDS } from "../budget";
import { defaultText } from "../config-fields";

interface BudgetInputsProps {
  texts: Record<string, string>;
  errors: Record<string, string>;
  onChange: (name: string, text: string) => void;
}

export function BudgetInputs({ texts, errors, onChange }: BudgetInputsProps) {
  return (
    <fieldset className="px-4 py-4">
      <legend className="sr-only">Priority and budget</legend>
      <p aria-hidden className="mb-3 text-xs font-semibold tracking-wide text-muted uppercase">
        Priority and budget
      </p>
      <div className="grid grid-cols-2 gap-x-5 gap-y-4 lg:grid-cols-4">
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
            onChange={(event) => {
              onChange(field.name, event.target.value);
            }}
          />
        ))}
      </div>
      <p className="mt-3 text-xs text-muted">
        At a limit the session writes a model checkpoint and stops.
      </p>
    </fieldset>
  );
}
