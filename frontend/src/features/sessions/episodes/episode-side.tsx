// Beside an episode’s conversation: rewards by agent and call, what the agent reported, how the calls merged, drift; and erasing it.
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useRef } from "react";
import { useNavigate, useSearchParams } from "react-router";
import { eraseEpisode } from "../../../api/episodes";
import { ApiError } from "../../../api/errors";
import type { EpisodeTimelines } from "../../../api/types";
import { Button } from "../../../ui/button";
import { CutText } from "../../../ui/cut-text";
import { Confirm } from "../../../ui/dialog";
import { number, seconds } from "../../../ui/format";
import { ErrorNotice } from "../../../ui/notice";
import { Panel } from "../../../ui/panel";
import { visible, UserText } from "../../../ui/plain-text";
import { AnnotationsPanel } from "./annotations-panel";
import { listPart } from "./episode-filter";

export function EpisodeSide({
  id,
  loaded,
  mayErase,
}: {
  id: string;
  loaded: EpisodeTimelines;
  mayErase: boolean;
}) {
  const { episode, report, calls } = loaded;
  return (
    <div className="space-y-4">
      <AnnotationsPanel id={id} episodeId={episode.episode_id} annotations={episode.annotations} />
      <Values title="Rewards by agent" values={episode.rewards_by_agent} />
      <Values title="Rewards by call" values={episode.rewards_by_call} />
      <Values title="Metrics" values={episode.metrics} />
      {calls.length > 0 && (
        <Panel title="Calls">
          <ol className="divide-y divide-line text-xs">
            {calls.map((call, at) => (
              <li key={call.id} className="flex flex-wrap gap-x-3 px-4 py-2">
                <span className="font-medium">Call {at + 1}</span>
                {call.agent !== null && <UserText text={call.agent} />}
                <span className="text-muted">
                  {seconds(Math.max(0, call.ended_at - call.begun_at))}
                </span>
                <span className="text-muted">
                  {call.status === "cancelled"
                    ? "cancelled"
                    : call.answers
                        .map(
                          (answer) =>
                            `${number(answer.tokens)} tokens, ${answer.finish_reason ?? "–"}`,
                        )
                        .join("; ")}
                </span>
                <Labels labels={call.options.labels} />
              </li>
            ))}
          </ol>
        </Panel>
      )}
      {report && (
        <Panel title="Merging">
          <p className="p-4 text-xs text-muted">
            {several(report.completions, "answer")} of {several(report.calls, "call")} merged into{" "}
            {several(report.timelines, "timeline")}
            {report.cancelled_calls > 0 && `; ${several(report.cancelled_calls, "call")} cancelled`}
            .
          </p>
        </Panel>
      )}
      {report?.drift.map((drift) => (
        <Panel key={drift.call} title="Drift">
          <div className="space-y-2 p-4 text-xs">
            <p className="text-muted">
              Call {calls.findIndex((call) => call.id === drift.call) + 1}, message{" "}
              {drift.message + 1}: {visible(drift.reason)}
            </p>
            <Fragment name="The engine saw" tone="bg-bad-soft" text={drift.saw} />
            <Fragment name="This prompt has" tone="bg-good-soft" text={drift.renders} />
          </div>
        </Panel>
      ))}
      {episode.metadata && Object.keys(episode.metadata).length > 0 && (
        <Panel title="Metadata">
          <pre
            className="max-h-80 overflow-auto p-4 font-mono text-xs whitespace-pre-wrap wrap-anywhere"
            tabIndex={0}
          >
            <CutText text={JSON.stringify(episode.metadata, null, 2)} />
          </pre>
        </Panel>
      )}
      {mayErase && <EraseEpisode id={id} episodeId={episode.episode_id} />}
    </div>
  );
}

function several(count: number, what: string): string {
  return `${number(count)} ${what}${count === 1 ? "" : "s"}`;
}

function Fragment({ name, tone, text }: { name: string; tone: string; text: string }) {
  return (
    <div>
      <p className="font-medium">{name}</p>
      <p className={`rounded p-2 font-mono whitespace-pre-wrap wrap-anywhere ${tone}`}>
        <CutText text={text} most={500} />
      </p>
    </div>
  );
}

function Values({ title, values }: { title: string; values: Record<string, number> | null }) {
  if (!values || Object.keys(values).length === 0) return null;
  return (
    <Panel title={title}>
      <dl className="grid grid-cols-[minmax(0,1fr)_auto] gap-x-3 gap-y-1 p-4 text-xs tabular-nums">
        {Object.entries(values).map(([name, value]) => (
          <div key={name} className="contents">
            <dt className="truncate text-muted" title={visible(name)}>
              <UserText text={name} />
            </dt>
            <dd className="text-right">{number(value)}</dd>
          </div>
        ))}
      </dl>
    </Panel>
  );
}

/** What the client sent with a call that changed nothing, and what was written otherwise than it was sent. */
function Labels({ labels }: { labels: unknown }) {
  if (typeof labels !== "object" || labels === null || Object.keys(labels).length === 0)
    return null;
  return (
    <details className="w-full">
      <summary className="cursor-pointer text-muted">
        {several(Object.keys(labels).length, "label")}
      </summary>
      <dl className="mt-1 grid grid-cols-[auto_1fr] gap-x-3 gap-y-0.5 font-mono wrap-anywhere">
        {Object.entries(labels).map(([name, value]) => (
          <div key={name} className="contents">
            <dt className="text-muted">
              <UserText text={name} />
            </dt>
            <dd>
              <CutText text={JSON.stringify(value)} most={300} />
            </dd>
          </div>
        ))}
      </dl>
    </details>
  );
}

/** For those who may, while its session is ready or once it has ended. */
function EraseEpisode({ id, episodeId }: { id: string; episodeId: string }) {
  const client = useQueryClient();
  const navigate = useNavigate();
  const [address] = useSearchParams();
  const hasTried = useRef(false);
  const erase = useMutation({
    meta: { done: "The episode is erased" },
    mutationFn: async () => {
      try {
        await eraseEpisode(id, episodeId);
      } catch (problem) {
        // An erasure goes on where its connection was lost: the second try finds nothing.
        if (!(hasTried.current && problem instanceof ApiError && problem.status === 404))
          throw problem;
      } finally {
        hasTried.current = true;
      }
    },
    onSuccess: async () => {
      await navigate(`/sessions/${id}/episodes${listPart(address)}`);
      client.removeQueries({ queryKey: ["session", id, "timelines", episodeId] });
      await client.invalidateQueries({ queryKey: ["session", id, "episodes"] });
    },
  });
  return (
    <div className="space-y-2">
      <ErrorNotice error={erase.error} />
      <Confirm
        trigger={
          <Button look="danger" disabled={erase.isPending}>
            {erase.isPending ? "Erasing…" : "Erase episode"}
          </Button>
        }
        title="Erase this episode?"
        description="Its prompts, answers, rewards and annotations are removed from the database, the object store and the archive. What the model learned from it stays. This cannot be undone."
        action="Erase episode"
        onConfirm={() => {
          erase.mutate();
        }}
      />
    </div>
  );
}
