// Subscribes an address and shows its secret once, with a program that checks it. The secret lives in this dialog alone.
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState, type SyntheticEvent } from "react";
import { fieldsOf } from "../../api/errors";
import type { WebhookTopic, WebhookCreate } from "../../api/types";
import { createWebhook, webhooksQuery } from "../../api/webhooks";
import { Button } from "../../ui/button";
import { Choices } from "../../ui/choices";
import { CopyBlock } from "../../ui/copy";
import { Dialog } from "../../ui/dialog";
import { TextField } from "../../ui/field";
import { ErrorNotice } from "../../ui/notice";
import { RECEIVER_SNIPPET, secretSnippet } from "./receiver-snippet";

/** The events that a webhook can subscribe to, in words. */
const TOPICS: { value: WebhookTopic; name: string }[] = [
  { value: "session.state", name: "A session changes its state" },
  { value: "session.failed", name: "A session fails" },
  { value: "session.stuck", name: "A session is stuck and its runtime is replaced" },
  { value: "budget.near", name: "A session has used nine tenths of a budget" },
  { value: "training.drift", name: "Sampling and training drift apart" },
  { value: "alert.raised", name: "An alert of a session is raised" },
  { value: "checkpoint.committed", name: "A checkpoint is committed" },
  { value: "checkpoint.failed", name: "A checkpoint fails" },
];

export function CreateWebhook({
  open,
  onOpenChange: setOpen,
}: {
  open: boolean;
  onOpenChange: (open: boolean) => void;
}) {
  const client = useQueryClient();
  const create = useMutation({
    mutationFn: createWebhook,
    gcTime: 0,
    onSuccess: () => client.invalidateQueries({ queryKey: webhooksQuery.queryKey }),
  });

  function onOpenChange(next: boolean) {
    setOpen(next);
    if (!next) create.reset();
  }

  return (
    <Dialog
      open={open}
      onOpenChange={onOpenChange}
      title={create.data ? "Your new webhook" : "New webhook"}
      description={
        create.data
          ? "Copy its secret now: it cannot be shown again. It signs every request, so that you know who is speaking."
          : "An address of yours that receives the events of this project."
      }
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
        <WebhookForm error={create.error} busy={create.isPending} onSubmit={create.mutate} />
      )}
    </Dialog>
  );
}

interface WebhookFormProps {
  error: Error | null;
  busy: boolean;
  onSubmit: (body: WebhookCreate) => void;
}

function WebhookForm({ error, busy, onSubmit }: WebhookFormProps) {
  const [url, setUrl] = useState("");
  const [topics, setTopics] = useState<WebhookTopic[]>(TOPICS.map((topic) => topic.value));
  const fields = fieldsOf(error);

  function submit(event: SyntheticEvent) {
    event.preventDefault();
    onSubmit({ url: url.trim(), topics });
  }

  return (
    <form onSubmit={submit} className="space-y-4" noValidate>
      <ErrorNotice error={error} />
      <TextField
        label="Address"
        type="url"
        placeholder="https://example.org/hooks/training"
        maxLength={2000}
        value={url}
        onChange={setUrl}
        description="It gets a POST, and any answer from 200 to 299 within ten seconds counts. Others are tried again for two days."
        error={fields.url}
      />
      <Choices
        legend="Events"
        options={TOPICS}
        chosen={topics}
        onChange={setTopics}
        stacked
        error={fields.topics}
      />
      <div className="flex justify-end">
        <Button type="submit" look="primary" disabled={busy}>
          Create webhook
        </Button>
      </div>
    </form>
  );
}

function Created({ secret, onDone }: { secret: string; onDone: () => void }) {
  return (
    <div className="space-y-3">
      <CopyBlock label="Signing secret" text={secret} />
      <p className="pt-1 font-medium">A program that receives</p>
      <CopyBlock label="shell" text={secretSnippet(secret)} />
      <CopyBlock label="receive.py" text={RECEIVER_SNIPPET} />
      <div className="flex justify-end pt-1">
        <Button look="primary" onClick={onDone}>
          Done, I have copied it
        </Button>
      </div>
    </div>
  );
}
