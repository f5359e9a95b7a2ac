// Saved views of the charts: the pinned ones are at hand, all of them are in a list where they are made, renamed and removed.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Pin, PinOff } from "lucide-react";
import { useState, type SyntheticEvent } from "react";
import { Link, useSearchParams } from "react-router";
import { fieldsOf } from "../../../api/errors";
import { createView, deleteView, savedViewsQuery, updateView } from "../../../api/saved-views";
import type { SavedView } from "../../../api/types";
import { Button } from "../../../ui/button";
import { Confirm, Dialog } from "../../../ui/dialog";
import { TextField } from "../../../ui/field";
import { ErrorNotice } from "../../../ui/notice";
import { visible, UserText } from "../../../ui/plain-text";
import { useMayWrite } from "../../../use-may-write";
import { viewOf, withView } from "./view-parts";

/** `isReady`: the charts are there; what is at hand beside them may be asked for. */
export function SavedViews({ isReady }: { isReady: boolean }) {
  const [isOpen, setOpen] = useState(false);
  const { data, error } = useQuery({ ...savedViewsQuery, enabled: isReady || isOpen });
  return (
    <div className="flex min-w-0 flex-wrap items-center gap-x-2 gap-y-1 text-xs print:hidden">
      {data?.items
        .filter(({ pinned }) => pinned)
        .map((view) => (
          <ViewLink
            key={view.id}
            view={view}
            className="max-w-40 truncate rounded border border-line-strong px-2 py-0.5"
          />
        ))}
      <Button
        look="quiet"
        className="h-7 text-xs"
        onClick={() => {
          setOpen(true);
        }}
      >
        Views…
      </Button>
      <Dialog
        open={isOpen}
        onOpenChange={setOpen}
        title="Saved views"
        description="How charts are looked at: axis, smoothing, scale, open groups. Everybody in the project sees them, on every run."
        wide
      >
        <div className="space-y-4">
          <ErrorNotice error={error} />
          {data?.items.length === 0 && <p className="text-muted">None yet.</p>}
          {data && data.items.length > 0 && (
            <ul
              aria-label="Views"
              className="max-h-80 divide-y divide-line overflow-y-auto rounded-md border border-line"
            >
              {data.items.map((view) => (
                <ViewRow
                  key={view.id}
                  view={view}
                  onOpened={() => {
                    setOpen(false);
                  }}
                />
              ))}
            </ul>
          )}
          <SaveForm />
        </div>
      </Dialog>
    </div>
  );
}

function ViewLink({
  view,
  className,
  onClick,
}: {
  view: SavedView;
  className: string;
  onClick?: () => void;
}) {
  const [address] = useSearchParams();
  const isShown = viewOf(address) === viewOf(new URLSearchParams(view.address));
  return (
    <Link
      to={`?${withView(address, view.address).toString()}`}
      aria-current={isShown ? "true" : undefined}
      onClick={onClick}
      className={`${className} text-accent hover:underline aria-[current=true]:bg-accent-soft aria-[current=true]:font-medium`}
    >
      <UserText text={view.name} />
    </Link>
  );
}

function useChange<T>(mutationFn: (given: T) => Promise<unknown>, done: string) {
  const client = useQueryClient();
  return useMutation({
    meta: { done },
    mutationFn,
    onSuccess: () => client.invalidateQueries({ queryKey: savedViewsQuery.queryKey }),
  });
}

function ViewRow({ view, onOpened }: { view: SavedView; onOpened: () => void }) {
  const mayWrite = useMayWrite();
  const [name, setName] = useState<string | null>(null);
  const update = useChange(updateView, "The view is changed");
  const remove = useChange(deleteView, "The view is removed");
  const said = visible(view.name);
  const rename = (event: SyntheticEvent) => {
    event.preventDefault();
    update.mutate(
      { id: view.id, name: (name ?? "").trim() },
      {
        onSuccess: () => {
          setName(null);
        },
      },
    );
  };
  return (
    <li className="px-3 py-2">
      {name !== null ? (
        <form onSubmit={rename} className="flex flex-wrap items-end gap-2" noValidate>
          <TextField label={`New name of ${said}`} maxLength={60} value={name} onChange={setName} />
          <Button type="submit" look="primary" disabled={update.isPending}>
            Rename
          </Button>
          <Button
            onClick={() => {
              setName(null);
            }}
          >
            Cancel
          </Button>
        </form>
      ) : (
        <div className="flex flex-wrap items-center gap-2">
          <ViewLink
            view={view}
            className="min-w-0 flex-1 rounded wrap-anywhere"
            onClick={onOpened}
          />
          {mayWrite && (
            <>
              <Button
                look="quiet"
                className="h-7"
                aria-label={`${view.pinned ? "Unpin" : "Pin"} ${said}`}
                aria-pressed={view.pinned}
                disabled={update.isPending}
                onClick={() => {
                  update.mutate({ id: view.id, pinned: !view.pinned });
                }}
              >
                {view.pinned ? <PinOff className="size-3.5" /> : <Pin className="size-3.5" />}
              </Button>
              <Button
                look="quiet"
                className="h-7"
                aria-label={`Rename ${said}`}
                onClick={() => {
                  setName(view.name);
                }}
              >
                Rename
              </Button>
              <Confirm
                trigger={
                  <Button look="quiet" className="h-7" aria-label={`Remove ${said}`}>
                    Remove
                  </Button>
                }
                title={`Remove ${said}?`}
                description="It is removed for everybody in the project."
                action="Remove view"
                onConfirm={() => {
                  remove.mutate(view.id);
                }}
              />
            </>
          )}
        </div>
      )}
      <ErrorNotice error={update.error ?? remove.error} />
    </li>
  );
}

/** Keeps what the address says now. */
function SaveForm() {
  const mayWrite = useMayWrite();
  const [address] = useSearchParams();
  const [name, setName] = useState("");
  const save = useChange(createView, "The view is saved");
  const fields = fieldsOf(save.error);
  if (!mayWrite) return null;
  const onSubmit = (event: SyntheticEvent) => {
    event.preventDefault();
    save.mutate(
      { name: name.trim(), address: viewOf(address) },
      {
        onSuccess: () => {
          setName("");
        },
      },
    );
  };
  return (
    <form onSubmit={onSubmit} className="space-y-3" noValidate>
      <ErrorNotice error={save.error} />
      <TextField
        label="Save what is shown now as"
        maxLength={60}
        value={name}
        error={fields.name}
        onChange={setName}
      />
      <div className="flex justify-end">
        <Button type="submit" look="primary" disabled={save.isPending}>
          Save view
        </Button>
      </div>
    </form>
  );
}
