// The conversation with one model: its turns, the answer that comes in the colours of its log-probabilities, tools, and all of it as code.
import { useEffect, useRef, useState } from "react";
import { Button } from "../../ui/button";
import type { ToolCall, ChatBody } from "../../ui/call-snippets";
import { CopyBlock } from "../../ui/copy";
import { TextField } from "../../ui/field";
import { number } from "../../ui/format";
import { ErrorNotice } from "../../ui/notice";
import { visible } from "../../ui/plain-text";
import { readable } from "../../ui/cut-text";
import { surpriseHeat } from "../../ui/surprise";
import type { Token } from "./chat-stream";
import {
  bodyOf,
  NOTHING_YET,
  resultEntries,
  waitingCalls,
  type Answer,
  type Entry,
  type Settings,
} from "./conversation";
import { programsOf } from "./programs";
import type { Target } from "./targets";
import { useConversation } from "./use-conversation";

export interface Asked {
  prompt: string;
  settings: Settings;
}

interface ConversationProps {
  target: Target | null;
  asked: Asked | null;
  draft: Asked;
}

export function Conversation({ target, asked, draft }: ConversationProps) {
  const { entries, coming, error, unsent, send, stop } = useConversation();
  const [results, setResults] = useState<Record<string, string>>({});
  const last = useRef(asked); // what was asked before this model was chosen is not asked of it
  const calls = coming ? [] : waitingCalls(entries);
  const answer = coming ?? entries[entries.length - 1]?.answer;
  const earlier = answer && !coming ? entries.slice(0, -1) : entries;

  useEffect(() => {
    if (asked === last.current) return;
    last.current = asked;
    if (asked && target)
      void send(
        target,
        [...resultEntries(calls, results), userEntry(asked.prompt)],
        asked.settings,
      );
    else stop();
  });

  return (
    <>
      {earlier.length > 0 && (
        <ol aria-label="Earlier turns" className="space-y-3">
          {earlier.map((entry, at) => (
            <Turn key={at} entry={entry} />
          ))}
        </ol>
      )}
      <ErrorNotice error={error} />
      {unsent && target && (
        <p>
          <Button
            onClick={() => {
              void send(target, unsent, draft.settings);
            }}
          >
            Ask again
          </Button>
        </p>
      )}
      <div
        data-testid="answer"
        aria-busy={coming !== null}
        className={`flex-1 ${earlier.length > 0 ? "border-l-2 border-accent pl-3" : "min-h-24"}`}
      >
        <AnswerText answer={answer ?? NOTHING_YET} />
        {coming && (
          <span className="text-muted">
            {coming.tokens.length === 0 && isStarting(target) ? "The model is starting …" : " …"}
          </span>
        )}
      </div>
      {answer && <Facts answer={answer} />}
      {calls.length > 0 && (
        <div className="space-y-2">
          {calls.map(({ id, function: { name } }) => (
            <TextField
              key={id}
              label={`Result of ${visible(name)}`}
              value={results[id] ?? ""}
              onChange={(value) => {
                setResults((before) => ({ ...before, [id]: value }));
              }}
            />
          ))}
          <Button
            disabled={!target}
            onClick={() => {
              if (target) void send(target, resultEntries(calls, results), draft.settings);
            }}
          >
            Send results
          </Button>
        </div>
      )}
      {target && (
        <AsCode
          target={target}
          body={bodyOf(draft.settings, [
            ...entries,
            ...(draft.prompt ? [userEntry(draft.prompt)] : []),
          ])}
        />
      )}
    </>
  );
}

function userEntry(content: string): Entry {
  return { message: { role: "user", content } };
}

function isStarting(target: Target | null): boolean {
  return target !== null && "session" in target && target.session.state !== "ready";
}

const ROLES: Record<string, string> = { user: "You", assistant: "Model", tool: "Tool" };

function Turn({ entry: { message, answer } }: { entry: Entry }) {
  return (
    <li className={`border-l-2 pl-3 ${answer ? "border-accent" : "border-line-strong"}`}>
      <p className="text-xs font-semibold">{ROLES[message.role] ?? message.role}</p>
      {answer ? (
        <AnswerText answer={answer} />
      ) : (
        <p dir="auto" className="whitespace-pre-wrap wrap-anywhere">
          {visible(message.content ?? "")}
        </p>
      )}
    </li>
  );
}

function AnswerText({ answer: { tokens, calls } }: { answer: Answer }) {
  return (
    <div className="font-mono text-xs leading-5 whitespace-pre-wrap wrap-anywhere">
      {tokens.map((token, at) => (
        <span key={at} data-heat={heatOf(token)} title={titleOf(token)}>
          {visible(token.text)}
        </span>
      ))}
      {calls.map((call) => (
        <Call key={call.id} call={call} />
      ))}
    </div>
  );
}

function Call({
  call: {
    function: { name, arguments: given },
  },
}: {
  call: ToolCall;
}) {
  return (
    <div className="mt-2 rounded border border-line p-2">
      Calls <span className="font-semibold">{visible(name)}</span>
      <pre className="whitespace-pre-wrap wrap-anywhere">{visible(readable(given))}</pre>
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

function Facts({ answer: { tokens, seconds, finish } }: { answer: Answer }) {
  const scored = tokens.reduce((sum, { count }) => sum + count, 0);
  const mean = tokens.reduce((sum, { logprob }) => sum + (logprob ?? 0), 0) / scored;
  const facts = [
    scored > 0 && `${number(scored)} tokens · mean log-probability ${number(mean)}`,
    seconds !== null && `${number(seconds)} s`,
    finish && `ended by ${finish}`,
  ].filter(Boolean);
  return (
    <p role="status" className="text-xs text-muted tabular-nums">
      {facts.join(" · ")}
    </p>
  );
}

/** The conversation as a program that goes on where it is. */
function AsCode({ target, body }: { target: Target; body: Omit<ChatBody, "model"> }) {
  const [shown, setShown] = useState(false);
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
        {shown ? "Hide code" : "Open in code"}
      </Button>
      {shown && <Programs target={target} body={body} />}
    </div>
  );
}

function Programs({ target, body }: { target: Target; body: Omit<ChatBody, "model"> }) {
  const { needs, python, curl } = programsOf(target, body, location.origin);
  return (
    <>
      <p className="text-xs text-muted">{needs}</p>
      {curl && <CopyBlock label="curl" text={curl} />}
      <CopyBlock label="Python" text={python} />
    </>
  );
}
