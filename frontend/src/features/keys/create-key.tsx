// Makes a key and shows its secret once, with the program to paste. The secret lives in this dialog alone.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState, type SyntheticEvent } from "react";
import { baseModelsQuery } from "../../api/base-models";
import { ApiError } from "../../api/client";
import { createKey, keysQuery } from "../../api/keys";
import { Button } from "../../ui/button";
import { CopyBlock } from "../../ui/copy";
import { Dialog } from "../../ui/dialog";
import { TextField } from "../../ui/field";
import { LoopSnippet } from "../../ui/loop-snippet";
import { ErrorNotice } from "../../ui/notice";

export function CreateKey() {
  const [open, setOpen] = useState(false);
  const client = useQueryClient();
  const create = useMutation({
    mutationFn: createKey,
    gcTime: 0,
    onSuccess: () => client.invalidateQueries({ queryKey: keysQuery.queryKey }),
  });

  function onOpenChange(next: boolean) {
    setOpen(next);
    if (!next) create.reset();
  }

  return (
    <>
      <Button
        look="primary"
        onClick={() => {
          setOpen(true);
        }}
      >
        New key
      </Button>
      <Dialog
        open={open}
        onOpenChange={onOpenChange}
        title={create.data ? "Your new key" : "New API key"}
        description={create.data ? "Copy it now: it is stored only as a hash and cannot be shown again." : "A name helps you to tell keys apart when you revoke one."}
        wide={Boolean(create.data)}
        sticky={Boolean(create.data)}
      >
        {create.data ? (
          <Created
            secret={create.data.secret}
            onDone={() => {
              onOpenChange(false);
            }}
          />
        ) : (
          <NameForm
            error={create.error}
            busy={create.isPending}
            onSubmit={(name) => {
              create.mutate({ name });
            }}
          />
        )}
      </Dialog>
    </>
  );
}

function NameForm({ error, busy, onSubmit }: { error: Error | null; busy: boolean; onSubmit: (name: string) => void }) {
  const [name, setName] = useState("");
  function submit(event: SyntheticEvent) {
    event.preventDefault();
    onSubmit(name.trim());
  }
  return (
    <form onSubmit={submit} className="space-y-4" noValidate>
      <ErrorNotice error={error} />
      <TextField
        label="Name"
        placeholder="laptop"
        maxLength={120}
        value={name}
        onChange={(event) => {
          setName(event.target.value);
        }}
        error={error instanceof ApiError ? error.fields.name : undefined}
      />
      <div className="flex justify-end">
        <Button type="submit" look="primary" disabled={busy}>
          Create key
        </Button>
      </div>
    </form>
  );
}

function Created({ secret, onDone }: { secret: string; onDone: () => void }) {
  const { data: models } = useQuery(baseModelsQuery);
  return (
    <div className="space-y-3">
      <CopyBlock label="API key" text={secret} />
      <p className="pt-1 font-medium">Use it</p>
      <LoopSnippet secret={secret} target={{ baseModel: models?.items[0]?.name ?? "SmolLM2-135M-Instruct" }} />
      <div className="flex justify-end pt-1">
        <Button look="primary" onClick={onDone}>
          Done, I have copied it
        </Button>
      </div>
    </div>
  );
}
