// What people think of an episode: one's own thumb and comment, and what others said.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { MessageSquare, ThumbsDown, ThumbsUp, type LucideIcon } from "lucide-react";
import { useState, type SyntheticEvent } from "react";
import { accountQuery } from "../../../api/account";
import { annotateEpisode, timelinesQuery, withAnnotations } from "../../../api/episodes";
import type { EpisodeAnnotation, Thumb } from "../../../api/types";
import { Button } from "../../../ui/button";
import { TextArea } from "../../../ui/field";
import { ago, dateTime } from "../../../ui/format";
import { ErrorNotice } from "../../../ui/notice";
import { Panel } from "../../../ui/panel";
import { UserText } from "../../../ui/plain-text";
import { useMayWrite } from "../../../use-may-write";

const THUMBS: { value: Thumb; sign: LucideIcon; name: string }[] = [
  { value: "up", sign: ThumbsUp, name: "Good" },
  { value: "down", sign: ThumbsDown, name: "Bad" },
];

interface Props {
  id: string;
  episodeId: string;
  annotations: readonly EpisodeAnnotation[];
}

export function AnnotationsPanel({ id, episodeId, annotations }: Props) {
  const { data: account } = useQuery(accountQuery);
  const mayWrite = useMayWrite();
  const own = annotations.find((one) => one.by !== "" && one.by === account?.email);
  const others = annotations.filter((one) => one !== own);
  return (
    <Panel title="Annotations">
      <div className="space-y-3 p-4">
        {mayWrite && account && (
          <OwnAnnotation key={episodeId} id={id} episodeId={episodeId} own={own} />
        )}
        {others.length === 0 && !mayWrite && (
          <p className="text-xs text-muted">No one has annotated this episode.</p>
        )}
        {others.length > 0 && (
          <ul className="space-y-2 text-xs">
            {others.map((one) => (
              <li key={`${one.by} ${one.at}`}>
                <span className="font-medium">
                  {THUMBS.find((thumb) => thumb.value === one.thumb)?.name}
                </span>{" "}
                <UserText className="text-muted" text={one.by || "A former member"} />{" "}
                <span className="text-muted" title={dateTime(one.at)}>
                  {ago(one.at)}
                </span>
                {one.comment && (
                  <p className="max-h-48 overflow-y-auto whitespace-pre-wrap wrap-anywhere">
                    <UserText text={one.comment} />
                  </p>
                )}
              </li>
            ))}
          </ul>
        )}
      </div>
    </Panel>
  );
}

function OwnAnnotation({
  id,
  episodeId,
  own,
}: {
  id: string;
  episodeId: string;
  own: EpisodeAnnotation | undefined;
}) {
  const [comment, setComment] = useState(own?.comment ?? "");
  const client = useQueryClient();
  const save = useMutation({
    meta: { done: "Saved" },
    mutationFn: (said: { thumb: Thumb | null; comment: string }) =>
      annotateEpisode(id, episodeId, said),
    onSuccess: async (saved) => {
      client.setQueryData(timelinesQuery(id, episodeId).queryKey, (pages) =>
        withAnnotations(pages, saved.items),
      );
      await client.invalidateQueries({ queryKey: ["session", id, "episodes"] });
    },
  });
  const thumb = own?.thumb ?? null;
  const isSaved = comment.trim() === (own?.comment ?? "");

  function onSubmit(event: SyntheticEvent) {
    event.preventDefault();
    save.mutate({ thumb, comment });
  }

  return (
    <form onSubmit={onSubmit} className={`space-y-2 ${comment === "" ? "print:hidden" : ""}`}>
      <ErrorNotice error={save.error} />
      <div role="group" aria-label="Your thumb" className="flex gap-2">
        {THUMBS.map(({ value, sign: Sign, name }) => (
          <Button
            key={value}
            aria-pressed={thumb === value}
            className={thumb === value ? "border-accent! bg-accent-soft!" : ""}
            disabled={save.isPending}
            onClick={() => {
              save.mutate({ thumb: thumb === value ? null : value, comment });
            }}
          >
            <Sign className="size-3.5" /> {name}
          </Button>
        ))}
      </div>
      <TextArea
        label="Your comment"
        className="h-20! py-1.5"
        maxLength={4000}
        value={comment}
        onChange={setComment}
      />
      <div className="flex items-center justify-end gap-3">
        <Button type="submit" disabled={save.isPending || isSaved}>
          Save comment
        </Button>
      </div>
    </form>
  );
}

/** In a list: how many thumbs of each kind and comments an episode has. */
export function AnnotationMarks({ annotations }: { annotations: readonly EpisodeAnnotation[] }) {
  const counts = [
    ...THUMBS.map(({ value, sign, name }) => ({
      sign,
      name,
      count: annotations.filter((one) => one.thumb === value).length,
    })),
    {
      sign: MessageSquare,
      name: "Comments",
      count: annotations.filter((one) => one.comment !== "").length,
    },
  ].filter(({ count }) => count > 0);
  if (counts.length === 0) return null;
  return (
    <span className="flex gap-2 text-xs text-muted">
      {counts.map(({ sign: Sign, name, count }) => (
        <span
          key={name}
          className="inline-flex items-center gap-1"
          role="img"
          aria-label={`${name}: ${String(count)}`}
          title={`${name}: ${String(count)}`}
        >
          <Sign className="size-3" /> {count}
        </span>
      ))}
    </span>
  );
}
