// The checkpoints of a run: download, pin, delete.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import {
  checkpointsQuery,
  deleteCheckpoint,
  pinCheckpoint,
  publishCheckpoint,
} from "../../../api/checkpoints";
import { isExported } from "../../../api/offline";
import { hasEnded } from "../../../api/sessions";
import type { Checkpoint, Session } from "../../../api/types";
import { Button, ButtonLink } from "../../../ui/button";
import { bytes, number } from "../../../ui/format";
import { ErrorNotice } from "../../../ui/notice";
import { Empty, Panel } from "../../../ui/panel";
import { useMayWrite } from "../../../use-may-write";
import { RunPage } from "../run-page";
import { useServe } from "../serving/use-serve";
import { CheckpointEntry } from "./checkpoint-entry";
import { ExportModel } from "./export-model";

export function CheckpointsPage() {
  return <RunPage title="Checkpoints" of={CheckpointsPanel} />;
}

function CheckpointsPanel({ session }: { session: Session }) {
  const query = checkpointsQuery(session.id);
  const { data, error } = useQuery(query);
  const client = useQueryClient();
  const mayWrite = useMayWrite();
  const onSettled = () => client.invalidateQueries({ queryKey: query.queryKey });
  const pin = useMutation({
    mutationFn: (wanted: { checkpoint: Checkpoint; pinned: boolean }) =>
      pinCheckpoint(wanted.checkpoint, wanted.pinned),
    onSettled,
  });
  const publish = useMutation({
    mutationFn: (wanted: { checkpoint: Checkpoint; isPublic: boolean }) =>
      publishCheckpoint(wanted.checkpoint, wanted.isPublic),
    onSettled,
  });
  const remove = useMutation({
    meta: { done: "The checkpoint is deleted" },
    mutationFn: deleteCheckpoint,
    onSettled,
  });
  const serve = useServe();
  // One error stands over the list: that of what was tried last.
  const forgetErrors = () => {
    for (const tried of [pin, publish, remove, serve]) if (tried.isError) tried.reset();
  };
  const [all, setAll] = useState(false);
  const shown = shownCheckpoints(data?.items ?? [], all);
  const newestModel = data?.items.find(
    ({ kind, state }) => kind === "model" && state === "committed",
  );
  const kept = data?.items.reduce((sum, checkpoint) => sum + (checkpoint.size_bytes ?? 0), 0) ?? 0;
  return (
    <Panel
      title="Checkpoints"
      actions={
        kept > 0 && (
          <span className="flex items-center gap-3 text-xs text-muted tabular-nums">
            {bytes(kept)} in all
            <ExportModel session={session} />
          </span>
        )
      }
    >
      <div className="p-3 empty:hidden">
        <ErrorNotice error={error ?? remove.error ?? pin.error ?? publish.error ?? serve.error} />
      </div>
      {data?.items.length === 0 && <NoCheckpoint session={session} />}
      <ul className="divide-y divide-line">
        {shown.map((checkpoint) => (
          <li key={checkpoint.id}>
            <CheckpointEntry
              checkpoint={checkpoint}
              isFirst={checkpoint === newestModel}
              actions={
                mayWrite
                  ? {
                      onPin: (pinned) => {
                        forgetErrors();
                        pin.mutate({ checkpoint, pinned });
                      },
                      onPublish: (isPublic) => {
                        forgetErrors();
                        publish.mutate({ checkpoint, isPublic });
                      },
                      onDelete: () => {
                        forgetErrors();
                        remove.mutate(checkpoint);
                      },
                      isServing: serve.isPending,
                      onServe: () => {
                        forgetErrors();
                        serve.mutate({
                          model: checkpoint.id,
                          name: `${session.name}, step ${number(checkpoint.step)}`.slice(0, 120),
                        });
                      },
                    }
                  : null
              }
            />
          </li>
        ))}
      </ul>
      {data && shown.length < data.items.length && (
        <div className="border-t border-line p-2 text-center">
          <Button
            look="quiet"
            onClick={() => {
              setAll(true);
            }}
          >
            Show all {number(data.items.length)}
          </Button>
        </div>
      )}
    </Panel>
  );
}

function NoCheckpoint({ session }: { session: Session }) {
  const mayWrite = useMayWrite();
  if (session.kind === "tinker")
    return (
      <Empty title="No checkpoint yet">
        The client saves them by name: save_state, save_weights_for_sampler.
      </Empty>
    );
  if (hasEnded(session)) {
    return (
      <Empty title="No checkpoint was kept">
        <p className="mb-3">It ended before a state was saved, or its checkpoints were deleted.</p>
        {mayWrite && !isExported && (
          <ButtonLink to={`/sessions/new?from=${session.id}`}>Run again</ButtonLink>
        )}
      </Empty>
    );
  }
  return (
    <Empty title="No checkpoint yet">
      <p className="mb-3">
        State is saved every {number(session.config.checkpoint_every_steps)} steps. A model, the
        weights as a Hugging Face folder, is written when it is asked for.
      </p>
      <ExportModel session={session} />
    </Empty>
  );
}

export const SHOWN_AT_FIRST = 20;

/** Of the list, newest first: the first of them, and every pinned one. */
export function shownCheckpoints(items: Checkpoint[], all: boolean): Checkpoint[] {
  return all
    ? items
    : items.filter((checkpoint, index) => index < SHOWN_AT_FIRST || checkpoint.pinned);
}
