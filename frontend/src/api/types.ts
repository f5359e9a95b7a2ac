// Names for the generated types. `Answer` is a message as the server sends it: it always writes every field, so nothing
// is optional; a request keeps its fields with defaults optional.
import type { components } from "./schema";

type Schemas = components["schemas"];

export type Answer<T> = T extends (infer Item)[]
  ? Answer<Item>[]
  : T extends object
    ? { [Key in keyof T]-?: Answer<Exclude<T[Key], undefined>> }
    : T;

export type Account = Answer<Schemas["AccountView"]>;
export type Accounting = Answer<Schemas["Accounting"]>;
export type AuditEntry = Answer<Schemas["AuditEntry"]>;
export type AuditPage = Answer<Schemas["AuditPage"]>;
export type BaseModel = Answer<Schemas["BaseModelView"]>;
export type Budget = Answer<Schemas["Budget"]>;
export type Checkpoint = Answer<Schemas["CheckpointView"]>;
export type CheckpointDownload = Answer<Schemas["CheckpointDownload"]>;
export type CheckpointKind = Schemas["CheckpointKind"];
export type Delivery = Answer<Schemas["DeliveryView"]>;
export type EpisodeExport = Answer<Schemas["EpisodeExport"]>;
export type ErrorBody = Answer<Schemas["ErrorBody"]>;
export type Event = Answer<Schemas["Event"]>;
export type EventPage = Answer<Schemas["EventPage"]>;
export type Failure = Answer<Schemas["Failure"]>;
export type Held = Answer<Schemas["Held"]>;
export type Key = Answer<Schemas["KeyView"]>;
export type KeyCreate = Schemas["KeyCreate"];
export type KeyCreated = Answer<Schemas["KeyCreated"]>;
export type Member = Answer<Schemas["MemberView"]>;
export type MemoryEstimate = Answer<Schemas["MemoryEstimate"]>;
export type Project = Answer<Schemas["ProjectView"]>;
export type Quotas = Answer<Schemas["Quotas"]>;
export type Role = Schemas["Role"];
export type Scope = Schemas["Scope"];
export type Session = Answer<Schemas["SessionView"]>;
export type SessionCreate = Schemas["SessionCreate"];
export type SessionLogs = Answer<Schemas["SessionLogs"]>;
export type SessionPlan = Answer<Schemas["SessionPlan"]>;
export type SessionState = Schemas["SessionState"];
export type SessionUsage = Answer<Schemas["SessionUsage"]>;
export type SignIn = Answer<Schemas["SignInView"]>;
export type StepMetrics = Answer<Schemas["StepMetrics"]>;
export type Usage = Answer<Schemas["Usage"]>;
export type UsagePage = Answer<Schemas["UsageList"]>;
export type Webhook = Answer<Schemas["WebhookView"]>;
export type WebhookCreate = Schemas["WebhookCreate"];
export type WebhookCreated = Answer<Schemas["WebhookCreated"]>;
export type WebhookTopic = Schemas["WebhookTopic"];

export interface Items<T> {
  items: T[];
}
export interface Page<T> extends Items<T> {
  next_cursor: string | null;
}
