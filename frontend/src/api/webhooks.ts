// The project's webhooks and their deliveries.
import { queryOptions } from "@tanstack/react-query";
import { unwrap, api } from "./client";
import type { WebhookCreate, WebhookCreated } from "./types";

export const webhooksQuery = queryOptions({
  queryKey: ["webhooks"],
  queryFn: () => unwrap(api.GET("/v1/webhooks")),
});

/** The latest fifty. Asked again sooner while one of them is on its way. */
export function deliveriesQuery(webhookId: string) {
  return queryOptions({
    queryKey: ["webhooks", webhookId, "deliveries"],
    queryFn: () =>
      unwrap(
        api.GET("/v1/webhooks/{webhook_id}/deliveries", {
          params: { path: { webhook_id: webhookId } },
        }),
      ),
    refetchInterval: (query) =>
      query.state.data?.items.some((delivery) => delivery.state === "pending") ? 3_000 : 15_000,
  });
}

export function createWebhook(body: WebhookCreate): Promise<WebhookCreated> {
  return unwrap(api.POST("/v1/webhooks", { body }));
}

export function deleteWebhook(id: string): Promise<void> {
  return unwrap(api.DELETE("/v1/webhooks/{webhook_id}", { params: { path: { webhook_id: id } } }));
}
