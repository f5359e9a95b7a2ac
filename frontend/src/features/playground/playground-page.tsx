// A conversation with several models beside each other. The address holds the columns and the episode it began with.
import { useQueries, useQuery } from "@tanstack/react-query";
import { useState, type FormEvent } from "react";
import { useSearchParams } from "react-router";
import { accountQuery } from "../../api/account";
import { currentProject } from "../../api/project";
import { baseModelsQuery } from "../../api/server";
import { savedQuery } from "../../api/checkpoints";
import { liveRunsQuery, servingQuery } from "../../api/serving";
import type { Session } from "../../api/types";
import { Button, ButtonLink } from "../../ui/button";
import { Loading } from "../../ui/loading";
import { ErrorNotice } from "../../ui/notice";
import { PageHeader } from "../../ui/panel";
import { Column } from "./column";
import { toolsOf } from "./conversation";
import type { Asked } from "./conversation-panel";
import { importedPrompt, promptQuery } from "./import-prompt";
import { MessageFields, SamplingFields, ToolsField, type Typed } from "./question-fields";
import { outsideHere, savedIds, targetOf, type Outside } from "./targets";
import { useColumns } from "./use-columns";

export function PlaygroundPage() {
  const served = useQuery(servingQuery);
  const runs = useQuery(liveRunsQuery);
  const known = [...(served.data?.items ?? []), ...(runs.data?.items ?? [])];
  const columns = useColumns(known);
  const account = useQuery(accountQuery).data;
  const mayAsk = account !== undefined && currentProject(account)?.role !== "viewer";
  const isLoaded = served.data !== undefined && runs.data !== undefined;
  const error = served.error ?? runs.error;
  const isCut = Boolean(served.data?.next_cursor ?? runs.data?.next_cursor);
  return (
    <>
      <PageHeader title="Playground">
        {isLoaded && columns.mayAdd && <Button onClick={columns.add}>Add a column</Button>}
        {mayAsk && <ButtonLink to="/serving">Serve a model</ButtonLink>}
      </PageHeader>
      {!isLoaded && (error ? <ErrorNotice error={error} /> : <Loading />)}
      {isLoaded && <Questions known={known} columns={columns} mayAsk={mayAsk} />}
      {isCut && (
        <p className="mt-3 text-xs text-muted">
          The newest hundred served models and runs can be chosen here.
        </p>
      )}
    </>
  );
}

interface QuestionsProps {
  known: Session[];
  columns: ReturnType<typeof useColumns>;
  mayAsk: boolean;
}

function Questions({ known, columns: { columns, choose, remove, keep }, mayAsk }: QuestionsProps) {
  const [address] = useSearchParams();
  const imported = useQuery(promptQuery(address.get("episode") ?? ""));
  const models = useQuery(baseModelsQuery);
  const [typed, setTyped] = useState<Partial<Typed>>({});
  const [outsides, setOutsides] = useState<Record<number, Outside>>({});
  const here = outsideHere(location.origin);
  const saved = useQueries({
    queries: columns.map(({ sessionId }) => savedQuery(savedIds(sessionId))),
  });
  const [asked, setAsked] = useState<Asked | null>(null);
  const [conversation, setConversation] = useState(0);
  const account = useQuery(accountQuery).data;
  const from = imported.data ? importedPrompt(imported.data) : null;
  const values: Typed = {
    system: from?.system ?? "",
    prompt: from?.prompt ?? "",
    temperature: "1",
    length: "128",
    tools: "",
    ...typed,
  };
  const targets = columns.map(({ key, sessionId }, at) =>
    targetOf(sessionId, known, outsides[key] ?? here, saved[at]?.data?.tinker_path),
  );
  const longest = Math.min(
    ...targets.flatMap((target) =>
      target && "session" in target ? (target.session.config.max_context_length ?? []) : [],
    ),
  );
  const tools = readTools(values.tools);
  const draft: Asked = {
    prompt: values.prompt,
    settings: {
      system: values.system,
      temperature: Number(values.temperature),
      max_tokens: Number(values.length),
      tools: tools.list,
    },
  };

  const field = (name: keyof Typed) => ({
    value: values[name],
    onChange: (value: string) => {
      setTyped((before) => ({ ...before, [name]: value }));
    },
  });

  function submit(event: FormEvent) {
    event.preventDefault();
    if (tools.error) return;
    keep();
    setAsked(draft);
    field("prompt").onChange("");
  }

  return (
    <form onSubmit={submit} className="space-y-4">
      <ErrorNotice error={imported.error ?? saved.find(({ error }) => error)?.error ?? null} />
      <div
        className="grid gap-4"
        style={{ gridTemplateColumns: "repeat(auto-fit, minmax(min(100%, 18rem), 1fr))" }}
      >
        {columns.map(({ key, sessionId }, at) => (
          <Column
            key={`${String(conversation)} ${String(key)}`}
            label={`Model ${String(at + 1)}`}
            place={sessionId}
            target={targets[at] ?? null}
            known={known}
            models={mayAsk ? (models.data?.items ?? []) : []}
            outside={outsides[key] ?? here}
            onOutside={(outside) => {
              setOutsides((before) => ({ ...before, [key]: outside }));
            }}
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
        <MessageFields field={field} />
        <ToolsField field={field} error={tools.error} />
        <div className="flex flex-wrap items-end gap-3">
          <SamplingFields field={field} longest={Number.isFinite(longest) ? longest : undefined} />
          {mayAsk && (
            <div className="flex gap-2">
              <Button type="submit" look="primary" disabled={!targets.some(Boolean)}>
                Ask
              </Button>
              <Button
                onClick={() => {
                  setAsked(null);
                }}
              >
                Stop
              </Button>
              <Button
                onClick={() => {
                  setConversation(conversation + 1);
                }}
              >
                New conversation
              </Button>
            </div>
          )}
          <p className="min-w-0 flex-1 basis-56 text-xs text-muted">
            {mayAsk || !account
              ? "The warmer a token’s colour, the less likely it was. Nothing of this is trained; a run counts each turn as an abandoned episode of an evaluation."
              : "Viewers of a project cannot ask its models."}
          </p>
        </div>
      </div>
    </form>
  );
}

function readTools(typed: string): { list: unknown[]; error?: string } {
  try {
    return { list: toolsOf(typed) };
  } catch (problem) {
    return { list: [], error: problem instanceof Error ? problem.message : String(problem) };
  }
}
