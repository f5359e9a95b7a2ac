// What people write on a run: its name, tags and notes, and whether it is pinned.
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState, type SyntheticEvent } from "react";
import { fieldsOf } from "../../../api/errors";
import { sessionQuery, sessionsKey, updateSession } from "../../../api/sessions";
import type { Session, SessionUpdate } from "../../../api/types";
import { Button } from "../../../ui/button";
import { Dialog } from "../../../ui/dialog";
import { TextArea, TextField } from "../../../ui/field";
import { ErrorNotice } from "../../../ui/notice";
import { Panel } from "../../../ui/panel";
import { UserText } from "../../../ui/plain-text";
import { useMayWrite } from "../../../use-may-write";

export function useUpdate(id: string, onSaved?: () => void) {
  const client = useQueryClient();
  return useMutation({
    meta: { done: "Saved" },
    mutationFn: (change: SessionUpdate) => updateSession(id, change),
    onSuccess: async (saved) => {
      client.setQueryData(sessionQuery(id).queryKey, saved);
      onSaved?.();
      await client.invalidateQueries({ queryKey: sessionsKey });
    },
  });
}

export function PinButton({
  session,
  update,
}: {
  session: Session;
  update: ReturnType<typeof useUpdate>;
}) {
  return (
    <Button
      aria-pressed={session.pinned}
      disabled={update.isPending}
      onClick={() => {
        update.mutate({ pinned: !session.pinned });
      }}
    >
      {session.pinned ? "Unpin" : "Pin"}
    </Button>
  );
}

export function NotesPanel({ session }: { session: Session }) {
  const [open, setOpen] = useState(false);
  const mayWrite = useMayWrite();
  if (!mayWrite && !session.notes) return null;
  return (
    <Panel
      title="Notes"
      actions={
        mayWrite && (
          <Button
            look="quiet"
            className="h-7"
            onClick={() => {
              setOpen(true);
            }}
          >
            Edit name, tags, notes
          </Button>
        )
      }
    >
      <p
        className="max-h-80 overflow-y-auto px-4 py-2 whitespace-pre-wrap wrap-anywhere"
        tabIndex={0}
      >
        {session.notes ? (
          <UserText text={session.notes} />
        ) : (
          <span className="text-muted">None yet.</span>
        )}
      </p>
      <Dialog
        open={open}
        onOpenChange={setOpen}
        title="Name, tags, notes"
        description="Everybody in the project sees them."
        wide
      >
        <AnnotateForm
          session={session}
          onSaved={() => {
            setOpen(false);
          }}
        />
      </Dialog>
    </Panel>
  );
}

function AnnotateForm({ session, onSaved }: { session: Session; onSaved: () => void }) {
  const [name, setName] = useState(session.name === session.id ? "" : session.name);
  const [tags, setTags] = useState(session.tags.join(", "));
  const [notes, setNotes] = useState(session.notes);
  const update = useUpdate(session.id, onSaved);
  const fields = fieldsOf(update.error);
  const wrongTag = Object.entries(fields).find(([field]) => field.startsWith("tags"))?.[1];

  function onSubmit(event: SyntheticEvent) {
    event.preventDefault();
    update.mutate({ name: name.trim(), tags: tagsTyped(tags), notes });
  }

  return (
    <form onSubmit={onSubmit} className="space-y-4" noValidate>
      <ErrorNotice error={update.error} />
      <TextField
        label="Name"
        maxLength={120}
        value={name}
        placeholder={session.id}
        error={fields.name}
        onChange={setName}
      />
      <TextField
        label="Tags"
        description="Separated by commas."
        maxLength={900}
        value={tags}
        error={wrongTag}
        onChange={setTags}
      />
      <TextArea
        label="Notes"
        className="h-48! py-1.5"
        maxLength={20_000}
        value={notes}
        error={fields.notes}
        onChange={setNotes}
      />
      <div className="flex justify-end">
        <Button type="submit" look="primary" disabled={update.isPending}>
          Save
        </Button>
      </div>
    </form>
  );
}

/** Tags out of what is typed with commas between: each once, without blanks around. */
export function tagsTyped(text: string): string[] {
  return [
    ...new Set(
      text
        .split(",")
        .map((tag) => tag.trim())
        .filter(Boolean),
    ),
  ];
}
