// The project's webhooks, newest first: make, look at what was sent, delete. The API shows them to owners alone.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { accountQuery } from "../../api/account";
import { currentProject } from "../../api/project";
import { deleteWebhook, webhooksQuery } from "../../api/webhooks";
import { Button } from "../../ui/button";
import { Loading } from "../../ui/loading";
import { ErrorNotice } from "../../ui/notice";
import { Empty, PageHeader } from "../../ui/panel";
import { CreateWebhook } from "./create-webhook";
import { WebhookEntry } from "./webhook-entry";

export function WebhooksPage() {
  const { data: account } = useQuery(accountQuery);
  const { data, error, isPending } = useQuery(webhooksQuery);
  const client = useQueryClient();
  const remove = useMutation({
    meta: { done: "The webhook is deleted" },
    mutationFn: deleteWebhook,
    onSettled: () => client.invalidateQueries({ queryKey: webhooksQuery.queryKey }),
  });
  const isOwner = account && currentProject(account)?.role === "owner";
  const webhooks = data?.items;
  const isEmpty = webhooks?.length === 0;
  const [isNew, setNew] = useState(false);
  const newOne = (
    <Button
      look="primary"
      onClick={() => {
        setNew(true);
      }}
    >
      New webhook
    </Button>
  );
  return (
    <>
      <PageHeader title="Webhooks">{isOwner && !isEmpty && newOne}</PageHeader>
      {/* Beside the list: the secret is shown on while the first webhook appears in it. */}
      <CreateWebhook open={isNew} onOpenChange={setNew} />
      <p className="mb-4 max-w-prose text-muted">
        A webhook sends the project's events to a server of yours, in signed requests that{" "}
        <code className="font-mono text-xs">tinkerscript.webhooks.verify</code> checks.
      </p>
      <ErrorNotice error={error ?? remove.error} />
      {(isPending || webhooks) && (
        <div className="rounded-lg border border-line bg-surface">
          {isPending && <Loading />}
          {isEmpty && (
            <Empty title="No webhook yet">
              <p className="mb-3">
                Create one to be notified when a session is ready, stops or fails, and when a
                checkpoint can be downloaded.
              </p>
              {isOwner && newOne}
            </Empty>
          )}
          <ul className="divide-y divide-line">
            {webhooks?.map((webhook) => (
              <li key={webhook.id}>
                <WebhookEntry
                  webhook={webhook}
                  isOpen={webhooks.length === 1}
                  onDelete={() => {
                    remove.mutate(webhook.id);
                  }}
                />
              </li>
            ))}
          </ul>
        </div>
      )}
    </>
  );
}
