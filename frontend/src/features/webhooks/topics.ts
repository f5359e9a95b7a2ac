// The events that a webhook can subscribe to, in words.
import type { WebhookTopic } from "../../api/types";

export const TOPICS: { value: WebhookTopic; name: string }[] = [
  { value: "session.state", name: "A session changes its state" },
  { value: "session.failed", name: "A session fails" },
  { value: "session.stuck", name: "A session is stuck and its runtime is replaced" },
  { value: "budget.near", name: "A session has used nine tenths of a budget" },
  { value: "training.drift", name: "Sampling and training drift apart" },
  { value: "alert.raised", name: "An alert of a session is raised" },
  { value: "checkpoint.committed", name: "A checkpoint is committed" },
  { value: "checkpoint.failed", name: "A checkpoint fails" },
];
