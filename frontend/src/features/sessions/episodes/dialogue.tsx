// An episode as a conversation: turns by role; tool calls, long results and thoughts folded; every text in its own direction.
import { useMemo } from "react";
import type { TrajectoryCall } from "../../../api/types";
import { CopyButton } from "../../../ui/copy";
import { CutText } from "../../../ui/cut-text";
import { number } from "../../../ui/format";
import { Panel } from "../../../ui/panel";
import { beginning, visible, UserText } from "../../../ui/plain-text";
import { threadsOf, turnText, type Part, type Turn } from "./turns";

const LONG = 400; // characters of a result: more of it is folded
const SHOWN = 8_000;
const ROLES = new Map(
  Object.entries({
    system: "System",
    developer: "Developer",
    user: "User",
    assistant: "Assistant",
    tool: "Tool",
    function: "Tool",
  }),
);
const LOOKS: Record<string, string> = {
  assistant: "border-accent",
  user: "border-line-strong",
  tool: "border-good",
  function: "border-good",
};
// Each line in the direction of its own first letter.
const TEXT = "whitespace-pre-wrap wrap-anywhere [unicode-bidi:plaintext]";

export function Dialogue({ calls }: { calls: readonly TrajectoryCall[] }) {
  const threads = useMemo(() => threadsOf(calls), [calls]);
  if (threads.length === 0)
    return <p className="p-4 text-muted">No call was made in this episode.</p>;
  return (
    <div className="space-y-4">
      {threads.map((thread, at) => (
        <Panel
          key={thread.key}
          title={`${threads.length > 1 ? `Conversation ${String(at + 1)}` : "Conversation"}${thread.agent === null ? "" : ` · ${visible(thread.agent)}`}`}
          actions={thread.origin && <span className="text-xs text-muted">{thread.origin}</span>}
        >
          <ol className="space-y-4 p-4">
            {thread.turns.map((turn) => (
              <TurnEntry key={turn.key} turn={turn} />
            ))}
          </ol>
        </Panel>
      ))}
    </div>
  );
}

function TurnEntry({ turn }: { turn: Turn }) {
  const text = turnText(turn);
  const role = ROLES.get(turn.role) ?? turn.role;
  return (
    <li data-role={turn.role} className={`border-l-2 pl-3 ${LOOKS[turn.role] ?? "border-line"}`}>
      <p className="mb-1 flex items-baseline gap-2 text-xs">
        <span className={`font-semibold ${turn.isSampled ? "text-accent" : ""}`}>
          <UserText text={role} />
        </span>
        {turn.note && <UserText className="text-muted" text={turn.note} />}
        {text !== "" && (
          <CopyButton label={`the text of ${visible(role)}`} text={text} className="ml-auto" />
        )}
      </p>
      <div className="space-y-2">
        {turn.parts.map((part, at) => (
          <PartEntry key={at} part={part} isSystem={turn.role === "system"} />
        ))}
        {turn.parts.length === 0 && (
          <p className="text-muted">
            {turn.note.endsWith("cancelled") ? "Its call was cancelled." : "No text."}
          </p>
        )}
      </div>
    </li>
  );
}

function PartEntry({ part, isSystem }: { part: Part; isSystem: boolean }) {
  const code = (
    <pre
      dir="ltr"
      tabIndex={0}
      className={`mt-1 max-h-96 overflow-auto rounded bg-sunken p-2 font-mono text-xs ${TEXT}`}
    >
      <CutText text={part.text} most={SHOWN} />
    </pre>
  );
  if (part.kind === "thoughts") {
    return (
      <Folded summary={`Thoughts, ${number(part.text.length)} characters`}>
        <div dir="auto" className={`mt-1 text-muted ${TEXT}`}>
          <CutText text={part.text} most={SHOWN} />
        </div>
      </Folded>
    );
  }
  if (part.kind === "call")
    return (
      <Folded
        summary={
          <>
            Calls <UserText className="font-mono" text={part.name} />{" "}
            <UserText className="font-mono text-muted" text={oneLine(part.text)} />
          </>
        }
      >
        {code}
      </Folded>
    );
  if (part.kind === "result")
    return part.text.length > LONG ? (
      <Folded
        summary={
          <>
            Gave back <UserText className="font-mono text-muted" text={oneLine(part.text)} />
          </>
        }
      >
        {code}
      </Folded>
    ) : (
      code
    );
  if (part.kind === "other")
    return <p className="text-xs text-muted">{visible(part.text)}: no text</p>;
  const said = (
    <div dir="auto" className={TEXT}>
      <CutText text={part.text} most={SHOWN} />
    </div>
  );
  return isSystem && part.text.length > LONG ? (
    <Folded summary={<UserText className="text-muted" text={oneLine(part.text)} />}>{said}</Folded>
  ) : (
    said
  );
}

function Folded({ summary, children }: { summary: React.ReactNode; children: React.ReactNode }) {
  return (
    <details className="rounded border border-line px-2 py-1 open:pb-2">
      <summary className="truncate text-xs">{summary}</summary>
      {children}
    </details>
  );
}

function oneLine(text: string): string {
  const line = text.replace(/\s+/g, " ").trim();
  const cut = beginning(line, 100);
  return cut === null ? line : `${cut}…`;
}
