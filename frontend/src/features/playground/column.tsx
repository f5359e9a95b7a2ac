// One column: which model, its answer in the colours of its log-probabilities, and the call as code.
import { useEffect, useRef, useState } from "react";
import { servedModel } from "../../api/serving";
import type { Session } from "../../api/types";
import { Button } from "../../ui/button";
import { curlSnippet, pythonSnippet, type ChatBody } from "../../ui/call-snippets";
import { CopyBlock } from "../../ui/copy";
import { SelectField } from "../../ui/field";
import { number } from "../../ui/format";
import { ErrorNotice } from "../../ui/notice";
import { visible } from "../../ui/plain-text";
import { surpriseHeat } from "../../ui/surprise";
import type { Token } from "./chat-stream";
import { nameOf } from "./targets";
import { useAnswer, type Answer } from "./use-answer";

export type Question = Omit<ChatBody, "model">;

interface ColumnProps {
  label: string;
  /** As the address has it: `session` is undefined where there is none that can be asked. */
  sessionId: string;
  session: Session | undefined;
  known: Session[];
  /** A new object asks again; null ends what runs. */
  asked: Question | null;
  draft: Question;
  onChoose: (id: string) => void;
  onRemove: (() => void) | null;
}

export function Column({ label, sessionId, session, known, asked, draft, onChoose, onRemove }: ColumnProps) {
  return (
    <section aria-label={label} className="flex min-w-0 flex-col gap-3 rounded-lg border border-line bg-surface p-4">
      <div className="flex items-end gap-2">
        <div className="min-w-0 flex-1">
          <SelectField
            label={label}
            value={session?.id ?? ""}
            onChange={(event) => {
              onChoose(event.target.value);
            }}
          >
            {!session && <option value="">Choose a model</option>}
            {known.map((one) => (
              <option key={one.id} value={one.id}>
                {visible(nameOf(one))} ({one.state})
              </option>
            ))}
          </SelectField>
        </div>
        {onRemove && (
          <Button look="quiet" aria-label={`Remove ${label}`} onClick={onRemove}>
            Remove
          </Button>
        )}
      </div>
      {!session && (
        <p role="status" className="text-xs text-warn">
          {sessionId ? `${visible(sessionId)} cannot be asked now: it has ended, or is not of this project. Choose another model.` : "No model is chosen."}
        </p>
      )}
      <ModelAnswer key={sessionId} session={session} asked={asked} />
      {session && <AsCode session={session} draft={draft} />}
    </section>
  );
}

/** Its key is the model: what one answered never stands under the name of another. */
function ModelAnswer({ session, asked }: Pick<ColumnProps, "session" | "asked">) {
  const { answer, ask, stop } = useAnswer();
  const last = useRef(asked); // what was asked before this model was chosen is not asked of it
  useEffect(() => {
    if (asked === last.current) return;
    last.current = asked;
    if (asked && session) void ask(session, asked);
    else stop();
  });
  return (
    <>
      <ErrorNotice error={answer.error} />
      <AnswerText answer={answer} isStarting={session !== undefined && session.state !== "ready"} />
      <Facts answer={answer} />
    </>
  );
}

function AnswerText({ answer, isStarting }: { answer: Answer; isStarting: boolean }) {
  return (
    <div data-testid="answer" aria-busy={answer.running} className="min-h-24 flex-1 font-mono text-xs leading-5 whitespace-pre-wrap wrap-anywhere">
      {answer.tokens.map((token, at) => (
        <span key={at} data-heat={heatOf(token)} title={titleOf(token)}>
          {visible(token.text)}
        </span>
      ))}
      {answer.running && <span className="text-muted">{isStarting && answer.tokens.length === 0 ? "The model is starting …" : " …"}</span>}
    </div>
  );
}

/** That of each of its tokens in the mean. */
function heatOf({ logprob, count }: Token): string | undefined {
  return logprob === undefined ? undefined : surpriseHeat(logprob / count);
}

function titleOf({ logprob, count }: Token): string | undefined {
  if (logprob === undefined) return undefined;
  const together = count === 1 ? "" : `${number(count)} tokens together: `;
  return `${together}log-probability ${number(logprob)}, probability ${number(Math.exp(logprob) * 100)} %`;
}

function Facts({ answer }: { answer: Answer }) {
  const count = answer.tokens.reduce((before, token) => before + token.count, 0);
  if (count === 0) return null;
  const mean = answer.tokens.reduce((before, { logprob }) => before + (logprob ?? 0), 0) / count;
  return (
    <p role="status" className="text-xs text-muted tabular-nums">
      {number(count)} tokens · mean log-probability {number(mean)}
      {answer.seconds !== null && ` · ${number(answer.seconds)} s`}
      {answer.finish && ` · ended by ${answer.finish}`}
    </p>
  );
}

function AsCode({ session, draft }: { session: Session; draft: Question }) {
  const [shown, setShown] = useState(false);
  const baseUrl = `${location.origin}/openai/v1`;
  const body: ChatBody = { model: session.kind === "serving" ? servedModel(session) : session.base_model, ...draft };
  return (
    <div className="space-y-2">
      <Button
        look="quiet"
        className="h-6 px-2 text-xs"
        aria-expanded={shown}
        onClick={() => {
          setShown(!shown);
        }}
      >
        {shown ? "Hide code" : "Open as curl or Python"}
      </Button>
      {shown && (
        <>
          <p className="text-xs text-muted">
            {session.kind === "serving" ? "The key is one of the session’s page (“New key”)." : "The key is that of an episode: begin_episode(eval=True)."}
          </p>
          <CopyBlock label="curl" text={curlSnippet(baseUrl, body)} />
          <CopyBlock label="Python" text={pythonSnippet(baseUrl, body)} />
        </>
      )}
    </div>
  );
}
