// Checkpoints, and the files of a committed one to download.
import { useQuery } from "@tanstack/react-query";
import { Collapsible } from "radix-ui";
import { checkpointsQuery, downloadQuery } from "../../api/checkpoints";
import type { Checkpoint, Session } from "../../api/types";
import { Badge, type Tone } from "../../ui/badge";
import { ago, bytes, dateTime, number, timeOfDay } from "../../ui/format";
import { ErrorNotice } from "../../ui/notice";
import { Empty, Panel } from "../../ui/panel";

const TONES: Record<Checkpoint["state"], Tone> = { requested: "busy", uploading: "busy", committed: "good", failed: "bad" };

export function CheckpointsPanel({ session }: { session: Session }) {
  const { data, error } = useQuery(checkpointsQuery(session.id));
  return (
    <Panel title="Checkpoints">
      <ErrorNotice error={error} />
      {data?.items.length === 0 && (
        <Empty title="No checkpoint yet">
          State is saved every {number(session.config.checkpoint_every_steps)} steps. “Export model” writes the weights as a Hugging Face folder.
        </Empty>
      )}
      <ul className="max-h-[32rem] divide-y divide-line overflow-y-auto">
        {data?.items.map((checkpoint) => (
          <li key={checkpoint.id}>
            <CheckpointEntry checkpoint={checkpoint} />
          </li>
        ))}
      </ul>
    </Panel>
  );
}

function CheckpointEntry({ checkpoint }: { checkpoint: Checkpoint }) {
  const line = (
    <>
      <span className="w-12 font-medium">{checkpoint.kind}</span>
      <span className="text-muted tabular-nums">{checkpoint.step === null ? "" : `step ${number(checkpoint.step)}`}</span>
      <span className="ml-auto text-xs text-muted tabular-nums" title={dateTime(checkpoint.created_at)}>
        {checkpoint.size_bytes === null ? ago(checkpoint.created_at) : bytes(checkpoint.size_bytes)}
      </span>
      <Badge tone={TONES[checkpoint.state]}>{checkpoint.state}</Badge>
    </>
  );
  const row = "flex w-full items-center gap-2 px-4 py-2 text-left";
  if (checkpoint.state !== "committed") {
    return (
      <>
        <div className={`${row} pl-9`}>{line}</div>
        {checkpoint.failure && <p className="px-4 pb-2 pl-9 text-xs text-bad">{checkpoint.failure}</p>}
      </>
    );
  }
  return (
    <Collapsible.Root>
      <Collapsible.Trigger className={`group ${row} hover:bg-sunken`} aria-label={`Files of the ${checkpoint.kind} checkpoint of step ${number(checkpoint.step)}`}>
        <span aria-hidden className="w-3 text-muted transition-transform group-data-[state=open]:rotate-90">
          ▸
        </span>
        {line}
      </Collapsible.Trigger>
      <Collapsible.Content>
        <Files checkpoint={checkpoint} />
      </Collapsible.Content>
    </Collapsible.Root>
  );
}

function Files({ checkpoint }: { checkpoint: Checkpoint }) {
  const { data, error } = useQuery(downloadQuery(checkpoint.session_id, checkpoint.id));
  if (error) return <ErrorNotice error={error} />;
  if (!data) return <p className="px-9 py-2 text-xs text-muted">Signing links…</p>;
  return (
    <div className="border-t border-line bg-sunken px-4 py-2 pl-9 text-xs">
      <ul className="space-y-1">
        {data.files.map((file) => (
          <li key={file.path} className="flex justify-between gap-3">
            <a href={file.url} download={file.path.split("/").pop()} className="truncate font-mono text-accent hover:underline" title={`sha256 ${file.sha256}`}>
              {file.path}
            </a>
            <span className="shrink-0 text-muted tabular-nums">{bytes(file.size_bytes)}</span>
          </li>
        ))}
      </ul>
      <p className="mt-2 text-muted">Links are good until {timeOfDay(data.expires_at)} and are renewed while shown.</p>
    </div>
  );
}
