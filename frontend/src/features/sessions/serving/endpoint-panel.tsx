// Where calls of a served model go, and a key for them, which is shown once.
import { useMutation } from "@tanstack/react-query";
import { createServingKey, servedModel } from "../../../api/serving";
import type { Session } from "../../../api/types";
import { Button, ButtonLink } from "../../../ui/button";
import { curlSnippet, keySnippet, pythonSnippet, type ChatBody } from "../../../ui/call-snippets";
import { CopyBlock } from "../../../ui/copy";
import { dateTime } from "../../../ui/format";
import { ErrorNotice } from "../../../ui/notice";
import { Panel } from "../../../ui/panel";
import { useMayWrite } from "../../../use-may-write";

const DAYS = 30;

export function EndpointPanel({ session }: { session: Session }) {
  const mayWrite = useMayWrite();
  const key = useMutation({ mutationFn: () => createServingKey(session.id, DAYS), gcTime: 0 });
  const baseUrl = key.data?.base_url ?? `${location.origin}/openai/v1`;
  const body: ChatBody = {
    model: servedModel(session),
    messages: [{ role: "user", content: "What is 3 + 4?" }],
    temperature: 1,
    max_tokens: 64,
  };
  return (
    <Panel
      title="Endpoint"
      actions={
        mayWrite && (
          <span className="flex gap-2">
            <ButtonLink to={`/playground?columns=${session.id}`}>Open in playground</ButtonLink>
            <Button
              look="primary"
              disabled={key.isPending}
              onClick={() => {
                key.mutate();
              }}
            >
              New key
            </Button>
          </span>
        )
      }
    >
      <div className="space-y-3 p-4">
        <ErrorNotice error={key.error} />
        <CopyBlock label="base_url of OpenAI’s clients" text={baseUrl} />
        <CopyBlock
          label="base_url of Anthropic’s clients"
          text={key.data?.anthropic_base_url ?? `${location.origin}/openai`}
        />
        {key.data ? (
          <>
            <p className="text-muted">
              Copy the key now: it is not kept and cannot be shown again. It works for this model
              only, until {dateTime(key.data.expires_at)}, and ends with your membership.
            </p>
            <CopyBlock label="key" text={keySnippet(key.data.api_key)} />
          </>
        ) : (
          <p className="text-muted">
            A call needs a key of this session (“New key”). An API key of the project works at
            /oai/api/v1, with this session’s id as the model.
          </p>
        )}
        <CopyBlock label="curl" text={curlSnippet(baseUrl, body)} />
        <CopyBlock label="Python" text={pythonSnippet(baseUrl, body)} />
      </div>
    </Panel>
  );
}
