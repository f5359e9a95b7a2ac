// One prompt, several models: their answers beside each other. The address holds the columns and the episode it began with.
import { useQuery } from "@tanstack/react-query";
import { useState, type FormEvent } from "react";
import { useSearchParams } from "react-router";
import { accountQuery } from "../../api/account";
import { currentProject } from "../../api/project";
import { liveRunsQuery, servingQuery } from "../../api/serving";
import type { Session } from "../../api/types";
import { Button, ButtonLink } from "../../ui/button";
import { Loading } from "../../ui/loading";
import { ErrorNotice } from "../../ui/notice";
import { Empty, PageHeader } from "../../ui/panel";
import { Column, type Question } from "./column";
import { importedPrompt, promptQuery } from "./import-prompt";
import { MessageFields, SamplingFields, type Typed } from "./question-fields";
import { useColumns } from "./use-columns";

export function PlaygroundPage() {
  const served = useQuery(servingQuery);
  const runs = useQuery(liveRunsQuery);
  const known = [...(served.data?.items ?? []), ...(runs.data?.items ?? [])];
  const columns = useColumns(known);
  const isLoaded = served.data !== undefined && runs.data !== undefined;
  const error = served.error ?? runs.error;
  const isCut = Boolean(served.data?.next_cursor ?? runs.data?.next_cursor);
  return (
    <>
      <PageHeader title="Playground">
        {isLoaded && columns.mayAdd && <Button onClick={columns.add}>Add a column</Button>}
        <ButtonLink to="/serving">Serve a model</ButtonLink>
      </PageHeader>
      {!isLoaded && (error ? <ErrorNotice error={error} /> : <Loading />)}
      {isLoaded && known.length === 0 && columns.columns.length === 0 && (
        <Empty title="No model can be asked now">Serve a base model or a checkpoint, or start a session: its policy can be asked while it is ready.</Empty>
      )}
      {isLoaded && columns.columns.length > 0 && <Questions known={known} columns={columns} />}
      {isCut && <p className="mt-3 text-xs text-muted">The newest hundred served models and runs can be chosen here.</p>}
    </>
  );
}

function Questions({ known, columns: { columns, choose, remove, keep } }: { known: Session[]; columns: ReturnType<typeof useColumns> }) {
  const [address] = useSearchParams();
  const imported = useQuery(promptQuery(address.get("episode") ?? ""));
  const [typed, setTyped] = useState<Partial<Typed>>({});
  const [asked, setAsked] = useState<Question | null>(null);
  const account = useQuery(accountQuery).data;
  const mayAsk = account !== undefined && currentProject(account)?.role !== "viewer";
  const from = imported.data ? importedPrompt(imported.data) : null;
  const values: Typed = { system: from?.system ?? "", prompt: from?.prompt ?? "", temperature: "1", length: "128", ...typed };
  const sessions = columns.map(({ sessionId }) => known.find(({ id }) => id === sessionId));
  const longest = Math.min(...sessions.flatMap((session) => session?.config.max_context_length ?? []));
  const draft: Question = {
    messages: [...(values.system ? [{ role: "system", content: values.system }] : []), { role: "user", content: values.prompt }],
    temperature: Number(values.temperature),
    max_tokens: Number(values.length),
  };

  function onType(name: keyof Typed, value: string) {
    setTyped((before) => ({ ...before, [name]: value }));
  }

  function submit(event: FormEvent) {
    event.preventDefault();
    keep();
    setAsked({ ...draft });
  }

  return (
    <form onSubmit={submit} className="space-y-4">
      <ErrorNotice error={imported.error} />
      <div className="grid gap-4" style={{ gridTemplateColumns: "repeat(auto-fit, minmax(min(100%, 18rem), 1fr))" }}>
        {columns.map(({ key, sessionId }, at) => (
          <Column
            key={key}
            label={`Model ${String(at + 1)}`}
            sessionId={sessionId}
            session={sessions[at]}
            known={known}
            asked={asked}
            draft={draft}
            onChoose={(chosen) => {
              choose(key, chosen);
            }}
            onRemove={
              columns.length > 1
                ? () => {
                    remove(key);
                  }
                : null
            }
          />
        ))}
      </div>
      <div className="space-y-3 rounded-lg border border-line bg-surface p-4">
        <MessageFields values={values} onType={onType} />
        <div className="flex flex-wrap items-end gap-3">
          <SamplingFields values={values} onType={onType} longest={Number.isFinite(longest) ? longest : undefined} />
          <div className="flex gap-2">
            <Button type="submit" look="primary" disabled={!mayAsk || !sessions.some(Boolean)}>
              Ask
            </Button>
            <Button
              onClick={() => {
                setAsked(null);
              }}
            >
              Stop
            </Button>
          </div>
          <p className="min-w-0 flex-1 basis-56 text-xs text-muted">
            {mayAsk || !account
              ? "The warmer a token’s colour, the less likely it was. Nothing of this is trained; a run counts it as an abandoned episode of an evaluation."
              : "Viewers of a project cannot ask its models."}
          </p>
        </div>
      </div>
    </form>
  );
}
