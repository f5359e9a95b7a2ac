// One checkpoint: what it is, its files once committed, and what can be done with it.
import { ChevronRight, Pin, Trash2 } from "lucide-react";
import { Collapsible } from "radix-ui";
import { useState } from "react";
import { isPending } from "../../../api/checkpoints";
import { isDemo, isExported } from "../../../api/offline";
import type { Checkpoint } from "../../../api/types";
import { Badge, type Tone } from "../../../ui/badge";
import { Button, ButtonLink } from "../../../ui/button";
import { curlSnippet } from "../../../ui/call-snippets";
import { CopyBlock, CopyText } from "../../../ui/copy";
import { Confirm } from "../../../ui/dialog";
import { ago, bytes, dateTime, number } from "../../../ui/format";
import { IconButton } from "../../../ui/icon-button";
import { CheckpointFiles } from "./checkpoint-files";
import { Provenance } from "./provenance";

const TONES: Record<Checkpoint["state"], Tone> = {
  requested: "busy",
  uploading: "busy",
  committed: "good",
  failed: "bad",
};

interface CheckpointEntryProps {
  checkpoint: Checkpoint;
  /** The one that most people come for is open as it is. */
  isFirst?: boolean;
  /** Null for a user who may only look. `isServing`: one of these models is being brought to serve. */
  actions: {
    onPin: (pinned: boolean) => void;
    onPublish: (isPublic: boolean) => void;
    onDelete: () => void;
    onServe: () => void;
    isServing: boolean;
  } | null;
}

export function CheckpointEntry({ checkpoint, actions, isFirst = false }: CheckpointEntryProps) {
  const [asked, setAsked] = useState<boolean | null>(null); // by a press; null: none yet
  const path = checkpoint.tinker_path;
  const name =
    path ??
    `the ${checkpoint.kind} checkpoint${checkpoint.step === null ? "" : ` of step ${number(checkpoint.step)}`}`;
  const isCommitted = checkpoint.state === "committed";
  const opens = isCommitted && !isExported; // its files are on the server
  const further = furtherText(checkpoint);
  const inset = isExported ? "pl-4" : "pl-9"; // below the sign that opens
  return (
    <Collapsible.Root open={asked ?? isFirst} onOpenChange={setAsked}>
      <div className={`flex items-center hover:bg-sunken ${actions ? "pr-2" : "pr-4"}`}>
        {opens ? (
          <Collapsible.Trigger className="group flex min-w-0 flex-1 items-center gap-2 py-2 pl-4 text-left">
            <ChevronRight className="size-3.5 shrink-0 text-muted transition-transform group-data-[state=open]:rotate-90" />
            <Line checkpoint={checkpoint} />
            <span className="sr-only">Files of {name}</span>
          </Collapsible.Trigger>
        ) : (
          <div className={`flex min-w-0 flex-1 items-center gap-2 py-2 ${inset}`}>
            <Line checkpoint={checkpoint} />
          </div>
        )}
        {actions && (
          <div className="ml-2 flex w-14 shrink-0 justify-end">
            {isCommitted && (
              <IconButton
                icon={Pin}
                label={checkpoint.pinned ? `Unpin ${name}` : `Pin ${name}`}
                pressed={checkpoint.pinned}
                onClick={() => {
                  actions.onPin(!checkpoint.pinned);
                }}
              />
            )}
            {!isPending(checkpoint) && (
              <Confirm
                trigger={<IconButton icon={Trash2} label={`Delete ${name}`} />}
                title={`Delete ${name}?`}
                description={`${checkpoint.pinned ? "It is pinned. " : ""}Its files are removed from the store. This cannot be undone.`}
                action="Delete checkpoint"
                onConfirm={actions.onDelete}
              />
            )}
          </div>
        )}
      </div>
      {path !== null && (
        <p className={`pr-4 pb-2 wrap-anywhere ${inset}`}>
          <CopyText label={path} text={path} />
        </p>
      )}
      {isDemo && isCommitted && (
        <p className={`pr-4 pb-2 text-xs text-muted ${inset}`}>
          Not kept: the demo run has what was measured and said, and no weights.
        </p>
      )}
      {checkpoint.failure && (
        <p className={`pr-4 pb-2 text-xs text-bad ${inset}`}>{checkpoint.failure}</p>
      )}
      {opens && (
        <Collapsible.Content>
          {actions && further && (
            <div className="flex flex-wrap items-center gap-x-3 gap-y-1 border-t border-line bg-sunken px-4 pt-2 pl-9 text-xs">
              <ButtonLink
                className="h-6 px-2 text-xs"
                to={`/sessions/new?from=${checkpoint.session_id}&checkpoint=${checkpoint.id}`}
              >
                Train further from here
              </ButtonLink>
              <span className="text-muted">{further}</span>
              {checkpoint.kind === "model" && path === null && (
                <>
                  <Button
                    className="h-6 px-2 text-xs"
                    disabled={actions.isServing}
                    onClick={actions.onServe}
                  >
                    Serve this model
                  </Button>
                  <ButtonLink
                    className="h-6 px-2 text-xs"
                    to={`/playground?columns=serve:${checkpoint.id}`}
                  >
                    Chat
                  </ButtonLink>
                  <span className="text-muted">
                    An engine answers calls of it, without a trainer.
                  </span>
                </>
              )}
            </div>
          )}
          {path !== null && (
            <NamedCheckpoint checkpoint={checkpoint} path={path} onPublish={actions?.onPublish} />
          )}
          <Provenance checkpoint={checkpoint} />
          <CheckpointFiles checkpoint={checkpoint} />
        </Collapsible.Content>
      )}
    </Collapsible.Root>
  );
}

/** What a tinker client's own path offers more: others who may read it, and answers of a sampler's weights. */
function NamedCheckpoint({
  checkpoint,
  path,
  onPublish,
}: {
  checkpoint: Checkpoint;
  path: string;
  onPublish: ((isPublic: boolean) => void) | undefined;
}) {
  const isSampler = path.includes("/sampler_weights/");
  return (
    <div className="space-y-2 border-t border-line bg-sunken px-4 py-2 pl-9 text-xs">
      <p className="flex flex-wrap items-center gap-x-3 gap-y-1">
        {onPublish && (
          <Button
            className="h-6 px-2 text-xs"
            aria-pressed={checkpoint.public}
            onClick={() => {
              onPublish(!checkpoint.public);
            }}
          >
            {checkpoint.public ? "Take back" : "Publish"}
          </Button>
        )}
        <span className="text-muted">
          {checkpoint.public
            ? "Every project of this server may read it."
            : "This project alone may read it."}
        </span>
      </p>
      {isSampler && onPublish && (
        <p className="flex flex-wrap items-center gap-x-3 gap-y-1">
          <ButtonLink
            className="h-6 px-2 text-xs"
            to={`/playground?columns=saved:${checkpoint.session_id}:${checkpoint.id}`}
          >
            Chat
          </ButtonLink>
          <span className="text-muted">
            In the playground. A runtime answers, which is started where none is there.
          </span>
        </p>
      )}
      {isSampler && <CopyBlock label="Chat with it" text={chatSnippet(location.origin, path)} />}
    </div>
  );
}

/** Any OpenAI client, with a key of the project. */
export function chatSnippet(origin: string, path: string): string {
  const body = {
    model: path,
    messages: [{ role: "user", content: "Hello" }],
    temperature: 0.7,
    max_tokens: 200,
  };
  return curlSnippet(`${origin}/oai/api/v1`, body, "TINKER_API_KEY");
}

/** What a session that begins there takes over: of what a Tinker client saved, its weights alone. Null: none begins there. */
export function furtherText({
  kind,
  tinker_path: path,
}: Pick<Checkpoint, "kind" | "tinker_path">): string | null {
  if (path?.includes("/external_weights/")) return null; // files for other programs
  return `A new session begins with its weights${kind === "state" && path === null ? " and its optimizer" : ""}.`;
}

/** "weights/NAME" of "tinker://MODEL/weights/NAME". */
function pathName({ tinker_path: path }: Checkpoint): string | null {
  return path === null ? null : path.split("/").slice(3).join("/");
}

function Line({ checkpoint }: { checkpoint: Checkpoint }) {
  return (
    <span className="flex min-w-0 flex-1 flex-wrap items-center gap-x-2">
      <span className="min-w-12 shrink-0 font-medium">
        {pathName(checkpoint) ?? checkpoint.kind}
      </span>
      <span className="text-muted tabular-nums">
        {checkpoint.step === null || checkpoint.tinker_path !== null
          ? ""
          : `step ${number(checkpoint.step)}`}
      </span>
      <span
        className="ml-auto shrink-0 text-xs text-muted tabular-nums"
        title={dateTime(checkpoint.created_at)}
      >
        {checkpoint.size_bytes === null ? ago(checkpoint.created_at) : bytes(checkpoint.size_bytes)}
      </span>
      {checkpoint.public && <Badge tone="busy">published</Badge>}
      <Badge tone={TONES[checkpoint.state]}>{checkpoint.state}</Badge>
    </span>
  );
}
