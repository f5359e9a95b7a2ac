// What is chosen of a few: one of a list, or any number of boxes to tick.
import { Field, inputClass, type InputProps } from "./field";

interface ChoicesProps<T extends string> {
  legend: string;
  options: { value: T; name: string }[];
  chosen: T[];
  onChange: (chosen: T[]) => void;
  /** In one column, for names that are long. */
  stacked?: boolean;
  error?: string | undefined;
}

export function Choices<T extends string>({
  legend,
  options,
  chosen,
  onChange,
  stacked = false,
  error,
}: ChoicesProps<T>) {
  return (
    <fieldset>
      <legend className="mb-1 font-medium">{legend}</legend>
      <div className={`grid gap-1 ${stacked ? "" : "sm:grid-cols-2"}`}>
        {options.map((option) => (
          <label key={option.value} className="flex items-center gap-2">
            <input
              type="checkbox"
              checked={chosen.includes(option.value)}
              onChange={(event) => {
                onChange(
                  event.target.checked
                    ? [...chosen, option.value]
                    : chosen.filter((value) => value !== option.value),
                );
              }}
            />
            <span className="truncate">{option.name}</span>
          </label>
        ))}
      </div>
      {error && (
        <p role="alert" className="mt-1 text-xs font-medium text-bad">
          {error}
        </p>
      )}
    </fieldset>
  );
}

/** The choices of a select. */
export function Options({ of }: { of: readonly { value: string; name: string }[] }) {
  return of.map(({ value, name }) => (
    <option key={value} value={value}>
      {name}
    </option>
  ));
}

export function SelectField({
  label,
  description,
  error,
  children,
  onChange,
  ...rest
}: InputProps<"select">) {
  return (
    <Field label={label} description={description} error={error}>
      {(input) => (
        <select
          className={inputClass}
          {...rest}
          {...input}
          onChange={(event) => {
            onChange?.(event.target.value);
          }}
        >
          {children}
        </select>
      )}
    </Field>
  );
}
