// What is asked of every column: the messages, and how an answer is sampled.
import { TextArea, TextField } from "../../ui/field";

export type Typed = Record<"system" | "prompt" | "temperature" | "length" | "tools", string>;

interface QuestionFieldsProps {
  /** What was typed into an input, and its setter. */
  field: (name: keyof Typed) => { value: string; onChange: (value: string) => void };
}

const CODE = "h-auto py-1.5 font-mono text-xs";

export function MessageFields({ field }: QuestionFieldsProps) {
  return (
    <>
      <TextField label="System message" {...field("system")} />
      <TextArea label="Prompt" required rows={4} className={CODE} {...field("prompt")} />
    </>
  );
}

/** `error`: why the tools that were typed are none. */
export function ToolsField({ field, error }: QuestionFieldsProps & { error: string | undefined }) {
  return (
    <details open={field("tools").value !== ""}>
      <summary className="cursor-pointer text-xs text-muted">Tools</summary>
      <TextArea
        label="Tools"
        description="A list of functions in JSON, as OpenAI’s API takes them. What a call gives back is typed in its column."
        error={error}
        rows={4}
        placeholder='[{"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}]'
        className={CODE}
        {...field("tools")}
      />
    </details>
  );
}

/** `longest`: the tokens that the smallest model of the columns can hold, prompt and answer together. */
export function SamplingFields({
  field,
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
          {...field("temperature")}
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
          {...field("length")}
        />
      </div>
    </>
  );
}
