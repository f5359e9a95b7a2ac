// A labelled input with its description and its error, tied together for screen readers.
import { useId, useState, type ComponentProps, type ReactNode } from "react";
import { beginning } from "./plain-text";

export const inputClass =
  "h-8 w-full rounded-md border border-line-strong bg-surface px-2.5 text-ink placeholder:text-muted/70 aria-invalid:border-bad";

interface FieldProps {
  label: string;
  description?: ReactNode;
  error?: string | undefined;
  children: (input: {
    id: string;
    "aria-invalid": boolean;
    "aria-describedby": string | undefined;
  }) => ReactNode;
}

export function Field({ label, description, error, children }: FieldProps) {
  const id = useId();
  const said = [description && `${id}-description`, error && `${id}-error`]
    .filter(Boolean)
    .join(" ");
  return (
    <div>
      <label htmlFor={id} className="mb-1 block font-medium">
        {label}
      </label>
      {children({ id, "aria-invalid": Boolean(error), "aria-describedby": said || undefined })}
      {error && (
        <p id={`${id}-error`} role="alert" className="mt-1 text-xs font-medium text-bad">
          {error}
        </p>
      )}
      {description && (
        <p id={`${id}-description`} className="mt-1 text-xs text-muted">
          {description}
        </p>
      )}
    </div>
  );
}

/** Of a labelled input of this kind: its field's, its own, and what is told of a change, which is its value. */
export type InputProps<Kind extends "input" | "select" | "textarea"> = Omit<
  FieldProps,
  "children"
> &
  Omit<ComponentProps<Kind>, "onChange"> & { onChange?: (value: string) => void };

/** What is typed or pasted beyond `maxLength` is cut between two characters, and said: a browser cuts within an emoji. */
export function TextField({
  label,
  description,
  error,
  className = "",
  maxLength,
  onChange,
  ...rest
}: InputProps<"input">) {
  const [isCut, setIsCut] = useState(false);
  return (
    <Field
      label={label}
      description={isCut ? `Cut to ${String(maxLength)} characters.` : description}
      error={error}
    >
      {(input) => (
        <input
          className={`${inputClass} ${className}`}
          {...rest}
          {...input}
          onChange={(event) => {
            const typed = event.target.value;
            const kept = beginning(typed, maxLength ?? Infinity);
            setIsCut(kept !== null);
            if (kept !== null) event.target.value = kept;
            onChange?.(kept ?? typed);
          }}
        />
      )}
    </Field>
  );
}

export function TextArea({
  label,
  description,
  error,
  className = "",
  onChange,
  ...rest
}: InputProps<"textarea">) {
  return (
    <Field label={label} description={description} error={error}>
      {(input) => (
        <textarea
          {...input}
          className={`${inputClass} ${className}`}
          {...rest}
          onChange={(event) => {
            onChange?.(event.target.value);
          }}
        />
      )}
    </Field>
  );
}
