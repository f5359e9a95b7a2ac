// One prompt, several models: their answers beside each other. The address holds the columns and the episode it began with.
import { useQuery } from "@tanstack/react-query";
import { useState, type FormEvent } from "react";
import { useSearchParams } from "react-router";
import { liveRunsQuery, servingQuery } from "../../api/serving";
import { Button, ButtonLink } from "../../ui/button";
import { inputClass, TextField, Field } from "../../ui/field";
import { Loading } from "../../ui/loading";
import { ErrorNotice } from "../../ui/notice";
import { Empty, PageHeader } from "../../ui/panel";
import { Column, type Question } from "./column";
import { importedPrompt, promptQuery } from "./import-prompt";
import { columnsOf, MOST_COLUMNS } from "./targets";

export function PlaygroundPage() {
  const [address, setAddress] = useSearchParams();
  const served = useQuery(servingQuery);
  const runs = useQuery(liveRunsQuery);
  const imported = useQuery(promptQuery(address.get("episode") ?? ""));
  const [typed, setTyped] = useState<Partial<Record<"system" | "prompt" | "temperature" | "length", string>>>({});
  const [asked, setAsked] = useState<Question | null>(null);
  const known = [...(served.data?.items ?? []), ...(runs.data?.items ?? [])];
  const columns = columnsOf(address, known);
  const from = imported.data ? importedPrompt(imported.data) : null;
  const system = typed.system ?? from?.system ?? "";
  const prompt = typed.prompt ?? from?.prompt ?? "";
  const temperature = typed.temperature ?? "1";
  const length = typed.length ?? "128";
  const draft: Question = {
    messages: [...(system ? [{ role: "system", content: system }] : []), { role: "user", content: prompt }],
    temperature: Number(temperature),
    max_tokens: Number(length),
  };

  function type(name: keyof typeof typed, value: string) {
    setTyped((before) => ({ ...before, [name]: value }));
  }

  function choose(next: string[]) {
    const kept = new URLSearchParams(address);
    kept.set("columns", next.join(","));
    setAddress(kept, { replace: true });
  }

  function submit(event: FormEvent) {
    event.preventDefault();
    setAsked({ ...draft });
  }

  if (!served.data || !runs.data) return served.error ?? runs.error ? <ErrorNotice error={served.error ?? runs.error} /> : <Loading />;
  return (
    <>
      <PageHeader title="Playground">
        {columns.length > 0 && columns.length < MOST_COLUMNS && (
          <Button
            onClick={() => {
              choose([...columns, known.find(({ id }) => !columns.includes(id))?.id ?? known[0]?.id ?? ""]);
            }}
          >
            Add a column
          </Button>
        )}
        <ButtonLink to="/serving">Serve a model</ButtonLink>
      </PageHeader>
      <ErrorNotice error={imported.error} />
      {known.length === 0 && columns.length === 0 ? (
        <Empty title="No model can be asked now">Serve a base model or a checkpoint, or start a session: its present policy can be asked while it is ready.</Empty>
      ) : (
        <form onSubmit={submit} className="space-y-4">
          <div className="grid gap-4" style={{ gridTemplateColumns: "repeat(auto-fit, minmax(min(100%, 18rem), 1fr))" }}>
            {columns.map((id, at) => (
              <Column
                key={at}
                label={`Model ${String(at + 1)}`}
                session={known.find((session) => session.id === id)}
                known={known}
                asked={asked}
                draft={draft}
                onChoose={(chosen) => {
                  choose(columns.map((one, place) => (place === at ? chosen : one)));
                }}
                onRemove={
                  columns.length > 1
                    ? () => {
                        choose(columns.filter((_, place) => place !== at));
                      }
                    : null
                }
              />
            ))}
          </div>
          <div className="space-y-3 rounded-lg border border-line bg-surface p-4">
            <TextField
              label="System message"
              value={system}
              onChange={(event) => {
                type("system", event.target.value);
              }}
            />
            <Field label="Prompt">
              {(input) => (
                <textarea
                  {...input}
                  required
                  rows={4}
                  className={`${inputClass} h-auto py-1.5 font-mono text-xs`}
                  value={prompt}
                  onChange={(event) => {
                    type("prompt", event.target.value);
                  }}
                />
              )}
            </Field>
            <div className="flex flex-wrap items-end gap-3">
              <div className="w-32">
                <TextField
                  label="Temperature"
                  type="number"
                  min={0}
                  max={2}
                  step="any"
                  required
                  value={temperature}
                  onChange={(event) => {
                    type("temperature", event.target.value);
                  }}
                />
              </div>
              <div className="w-32">
                <TextField
                  label="Tokens at most"
                  type="number"
                  min={1}
                  step={1}
                  required
                  value={length}
                  onChange={(event) => {
                    type("length", event.target.value);
                  }}
                />
              </div>
              <Button type="submit" look="primary">
                Ask
              </Button>
              <Button
                onClick={() => {
                  setAsked(null);
                }}
              >
                Stop
              </Button>
              <p className="min-w-0 flex-1 text-xs text-muted">The warmer a token’s colour, the less likely it was. Nothing of this is trained; a run counts it as an abandoned episode of an evaluation.</p>
            </div>
          </div>
        </form>
      )}
    </>
  );
}
