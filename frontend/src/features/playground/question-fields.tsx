// What is asked of every column: the messages, and how an answer is sampled.
import { TextField, Field, inputClass } from "../../ui/field";

export type Typed = Record<"system" | "prompt" | "temperature" | "length" | "tools", string>;

interface QuestionFieldsProps {
  values: Typed;
  onType: (name: keyof Typed, value: string) => void;
}

export function MessageFields({ values, onType }: QuestionFieldsProps) {
  return (
    <>
      <TextField
        label="System message"
        value={values.system}
        onChange={(event) => {
          onType("system", event.target.value);
        }}
      />
      <Field label="Prompt">
        {(input) => (
          <textarea
            {...input}
            required
            rows={4}
            className={`${inputClass} h-auto py-1.5 font-mono text-xs`}
            value={values.prompt}
            onChange={(event) => {
              onType("prompt", event.target.value);
            }}
          />
        )}
      </Field>
    </>
  );
}

/** `error`: why the tools that were typed are none. */
export function ToolsField({
  values,
  onType,
  error,
}: QuestionFieldsProps & { error: string | undefined }) {
  return (
    <details open={values.tools !== ""}>
      <summary className="cursor-pointer text-xs text-muted">Tools</summary>
      <Field
        label="Tools"
        description="A list of functions in JSON, as OpenAI’s API takes them. What a call gives back is typed in its column."
        error={error}
      >
        {(input) => (
          <textarea
            {...input}
            rows={4}
            placeholder='[{"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}]'
            className={`${inputClass} h-auto py-1.5 font-mono text-xs`}
            value={values.tools}
            onChange={(event) => {
              onType("tools", event.target.value);
            }}
          />
        )}
      </Field>
    </details>
  );
}

/** `longest`: the tokens that the smallest model of the columns can hold, prompt and answer together. */
export function SamplingFields({
  values,
  onType,
  longest,
}: QuestionFieldsProps & { longest: number | undefined }) {
  return (
    <>
      <div className="w-32">
        <TextField
          label="Temperature"
          type="number"
          min={0}
          max={2}
          step="any"
          required
          value={values.temperature}
          onChange={(event) => {
            onType("temperature", event.target.value);
          }}
        />
      </div>
      <div className="w-32">
        <TextField
          label="Max tokens"
          type="number"
          min={1}
          max={longest}
          step={1}
          required
          value={values.length}
          onChange={(event) => {
            onType("length", event.target.value);
          }}
        />
      </div>
    </>
  );
}
