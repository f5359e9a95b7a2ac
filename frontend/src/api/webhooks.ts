// The project's webhooks and their deliveries.
import { queryOptions } from "@tanstack/react-query";
import { get, post, remove } from "./client";
import type { Delivery, Items, Webhook, WebhookCreate, WebhookCreated } from "./types";

export const webhooksQuery = queryOptions({
  queryKey: ["webhooks"],
  queryFn: () => get<Items<Webhook>>("/v1/webhooks"),
});

/** The latest fifty. Asked again sooner while one of them is on its way. */
export function deliveriesQuery(webhookId: string) {
  return queryOptions({
    queryKey: ["webhooks", webhookId, "deliveries"],
    queryFn: () => get<Items<Delivery>>(`/v1/webhooks/${webhookId}/deliveries`),
    refetchInterval: (query) => (query.state.data?.items.some((delivery) => delivery.state === "pending") ? 3_000 : 15_000),
  });
}

export function createWebhook(body: WebhookCreate): Promise<WebhookCreated> {
  return post("/v1/webhooks", body);
}

export function deleteWebhook(id: string): Promise<void> {
  return remove(`/v1/webhooks/${id}`);
}
