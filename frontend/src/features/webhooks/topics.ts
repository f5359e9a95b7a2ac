// What a webhook can be told of, in words.
import type { WebhookTopic } from "../../api/types";

export const TOPICS: { value: WebhookTopic; name: string }[] = [
  { value: "session.state", name: "A session changes its state" },
  { value: "checkpoint.committed", name: "A checkpoint is committed" },
  { value: "checkpoint.failed", name: "A checkpoint fails" },
];
