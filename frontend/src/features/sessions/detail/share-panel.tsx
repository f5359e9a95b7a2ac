// Public links to the run: make one, see who made which until when, revoke.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useRef, useState } from "react";
import { createShare, revokeShare, sharesQuery } from "../../../api/sharing";
import type { Session } from "../../../api/types";
import { Button } from "../../../ui/button";
import { CopyBlock } from "../../../ui/copy";
import { Confirm } from "../../../ui/dialog";
import { inputClass } from "../../../ui/field";
import { dateTime } from "../../../ui/format";
import { ErrorNotice } from "../../../ui/notice";
import { Panel } from "../../../ui/panel";
import { useNear } from "../../../ui/use-near";
import { useMayWrite } from "../../../use-may-write";

const DAYS = [1, 7, 30, 365];

export function SharePanel({ session }: { session: Session }) {
  const mayWrite = useMayWrite();
  const list = useRef<HTMLUListElement>(null);
  const isShown = useNear(list, false, 0); // few look at them, and a page has enough to ask for
  const { data, error } = useQuery({ ...sharesQuery(session.id), enabled: mayWrite && isShown });
  const [days, setDays] = useState(7);
  const client = useQueryClient();
  const onSettled = () => client.invalidateQueries({ queryKey: sharesQuery(session.id).queryKey });
  const create = useMutation({
    mutationFn: () => createShare(session.id, days),
    onSettled,
    gcTime: 0,
  });
  const revoke = useMutation({
    meta: { done: "The link is revoked" },
    mutationFn: (shareId: string) => revokeShare(session.id, shareId),
    onSuccess: (_, shareId) => {
      if (create.data?.id === shareId) create.reset(); // its address is of no use any more
    },
    onSettled,
  });
  if (!mayWrite) return null;
  return (
    <Panel title="Public links">
      <div className="space-y-3 p-4">
        <p className="text-xs text-muted">
          Anyone who has a link can read this run’s options, curves and episodes without an account.
          It gives access to nothing else. A link also ends when its maker may no longer change runs
          here.
        </p>
        <ErrorNotice error={error ?? create.error ?? revoke.error} />
        <div className="flex items-center gap-2">
          <select
            aria-label="Good for"
            className={`${inputClass} w-28!`}
            value={days}
            onChange={(event) => {
              setDays(Number(event.target.value));
            }}
          >
            {DAYS.map((count) => (
              <option key={count} value={count}>
                {count === 1 ? "1 day" : `${String(count)} days`}
              </option>
            ))}
          </select>
          <Button
            disabled={create.isPending}
            onClick={() => {
              create.mutate();
            }}
          >
            Make a link
          </Button>
        </div>
        {create.data && <CopyBlock label="Link, shown this once" text={create.data.url} />}
      </div>
      <ul ref={list} className="min-h-px divide-y divide-line">
        {data?.items.map((share) => (
          <li key={share.id} className="flex items-center gap-2 px-4 py-1.5 text-xs">
            <span className="min-w-0 truncate text-muted" title={share.by}>
              until {dateTime(share.expires_at)}
              {share.by && `, by ${share.by}`}
            </span>
            <Confirm
              trigger={
                <Button
                  look="quiet"
                  className="ml-auto h-6 px-2 text-xs"
                  disabled={revoke.isPending}
                  aria-label={`Revoke the link until ${dateTime(share.expires_at)}`}
                >
                  Revoke
                </Button>
              }
              title="Revoke this link?"
              description="Everyone who has it stops reading this run now. It cannot be brought back; another one can be made."
              action="Revoke link"
              onConfirm={() => {
                revoke.mutate(share.id);
              }}
            />
          </li>
        ))}
      </ul>
    </Panel>
  );
}
