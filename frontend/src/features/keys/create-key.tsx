// Makes a key and shows its secret once, with the program to paste. The secret lives in this dialog alone.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { baseModelsQuery } from "../../api/base-models";
import { createKey, keysQuery } from "../../api/keys";
import { Button } from "../../ui/button";
import { CopyBlock } from "../../ui/copy";
import { Dialog } from "../../ui/dialog";
import { Loading } from "../../ui/loading";
import { KeyForm } from "./key-form";
import { KeyPrograms } from "./key-programs";

export function CreateKey({ readOnly }: { readOnly: boolean }) {
  const [open, setOpen] = useState(false);
  const { data: models, isPending } = useQuery(baseModelsQuery);
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
        description={
          create.data
            ? "Copy it now: it is stored only as a hash and cannot be shown again."
            : "A name helps you to distinguish keys when you revoke one."
        }
        wide={Boolean(create.data)}
        sticky={Boolean(create.data)}
      >
        {create.data ? (
          <Created
            secret={create.data.secret}
            baseModel={models?.items[0]?.name ?? "SmolLM2-135M-Instruct"}
            onDone={() => {
              onOpenChange(false);
            }}
          />
        ) : isPending ? (
          // Models that came later would push the button away from under the pointer.
          <Loading />
        ) : (
          <KeyForm
            models={models?.items ?? []}
            error={create.error}
            busy={create.isPending}
            readOnly={readOnly}
            onSubmit={create.mutate}
          />
        )}
      </Dialog>
    </>
  );
}

function Created({
  secret,
  baseModel,
  onDone,
}: {
  secret: string;
  baseModel: string;
  onDone: () => void;
}) {
  return (
    <div className="space-y-3">
      <CopyBlock label="API key" text={secret} />
      <p className="pt-1 font-medium">Use it</p>
      <KeyPrograms secret={secret} baseModel={baseModel} />
      <div className="flex justify-end pt-1">
        <Button look="primary" onClick={onDone}>
          Done, I have copied it
        </Button>
      </div>
    </div>
  );
}
