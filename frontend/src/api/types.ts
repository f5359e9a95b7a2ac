// Names for the generated types. `FromServer` is a message as the server sends it: it always writes every field, so nothing
// is optional; a request keeps its fields with defaults optional.
import type { components } from "./schema";

type Schemas = components["schemas"];

export type FromServer<T> = T extends (infer Item)[]
  ? FromServer<Item>[]
  : T extends object
    ? { [Key in keyof T]-?: FromServer<Exclude<T[Key], undefined>> }
    : T;

export type Account = FromServer<Schemas["AccountView"]>;
export type Accounting = FromServer<Schemas["Accounting"]>;
export type Alert = FromServer<Schemas["AlertView"]>;
export type AlertRule = Schemas["AlertRule"];
export type AuditEntry = FromServer<Schemas["AuditEntry"]>;
export type AuditPage = FromServer<Schemas["AuditPage"]>;
export type BaseModel = FromServer<Schemas["BaseModelView"]>;
export type ModelCalls = FromServer<Schemas["ModelCalls"]>;
export type TinkerModel = FromServer<Schemas["TinkerModelView"]>;
export type TinkerRun = FromServer<Schemas["TinkerRun"]>;
export type Server = FromServer<Schemas["ServerView"]>;
export type Budget = FromServer<Schemas["Budget"]>;
export type Capacity = FromServer<Schemas["CapacityView"]>;
export type ComparedTask = FromServer<Schemas["ComparedTask"]>;
export type Checkpoint = FromServer<Schemas["CheckpointView"]>;
export type CheckpointDownload = FromServer<Schemas["CheckpointDownload"]>;
export type CheckpointProvenance = FromServer<Schemas["CheckpointProvenance"]>;
export type CheckpointKind = Schemas["CheckpointKind"];
export type Delivery = FromServer<Schemas["DeliveryView"]>;
export type Episode = FromServer<Schemas["EpisodeView"]>;
export type EpisodeAnnotation = FromServer<Schemas["EpisodeAnnotation"]>;
export type EpisodeFate = Schemas["EpisodeFate"];
export type EpisodeFacets = FromServer<Schemas["EpisodeFacets"]>;
export type EpisodeNeighbours = FromServer<Schemas["EpisodeNeighbours"]>;
export type EpisodeOutline = FromServer<Schemas["EpisodeOutline"]>;
export type EpisodeSort = Schemas["EpisodeSort"];
export type EpisodeTimelines = FromServer<Schemas["EpisodeTimelines"]>;
export type EpisodeExport = FromServer<Schemas["EpisodeExport"]>;
export type ErrorBody = FromServer<Schemas["ErrorBody"]>;
export type Event = FromServer<Schemas["Event"]>;
/** A part of a run's record; of the marks alone, how many are missing among them. */
export type ReadEvents = FromServer<Schemas["EventPage"]>;
export type EventPage = Omit<ReadEvents, "left_out">;
export type Group = FromServer<Schemas["GroupView"]>;
export type Held = FromServer<Schemas["Held"]>;
export type Key = FromServer<Schemas["KeyView"]>;
export type KeyCreate = Schemas["KeyCreate"];
export type KeyCreated = FromServer<Schemas["KeyCreated"]>;
export type Member = FromServer<Schemas["MemberView"]>;
export type MemoryEstimate = FromServer<Schemas["MemoryEstimate"]>;
export type MemoryPlace = FromServer<Schemas["MemoryPlace"]>;
export type MetricColumn = FromServer<Schemas["MetricColumn"]>;
export type MetricColumns = FromServer<Schemas["MetricColumns"]>;
export type MetricRule = FromServer<Schemas["MetricRuleView"]>;
export type MetricRuleCreate = Schemas["MetricRuleCreate"];
export type DevicePrices = FromServer<Schemas["DevicePrices"]>;
export type Project = FromServer<Schemas["ProjectView"]>;
export type Quotas = FromServer<Schemas["Quotas"]>;
export type ResourceColumn = FromServer<Schemas["ResourceColumn"]>;
export type ResourceColumns = FromServer<Schemas["ResourceColumns"]>;
export type Role = Schemas["Role"];
export type SavedView = FromServer<Schemas["SavedViewView"]>;
export type Scope = Schemas["Scope"];
export type ServingEndpoint = FromServer<Schemas["ServingEndpoint"]>;
export type Session = FromServer<Schemas["SessionView"]>;
export type SessionCreate = Schemas["SessionCreate"];
export type SessionLogs = FromServer<Schemas["SessionLogs"]>;
export type SessionPlan = FromServer<Schemas["SessionPlan"]>;
export type SessionSort = Schemas["SessionSort"];

/** What moves of a session, as the project's live channel tells it. */
export type SessionChange = Pick<
  Session,
  "id" | "state" | "phase" | "queue_position" | "policy_version" | "reward_mean" | "accounting"
>;

export interface SessionChanges {
  items: SessionChange[];
  next_cursor: number;
  /** More moved than is told. */
  is_cut: boolean;
}
export type ConfigChange = FromServer<Schemas["ConfigChange"]>;
export type ConfigUpdate = Schemas["ConfigUpdate"];
export type SessionUpdate = Schemas["SessionUpdate"];
export type Spending = FromServer<Schemas["SessionSpending"]>;
export type Thumb = Schemas["Thumb"];
export type SessionState = Schemas["SessionState"];
export type SessionUsage = FromServer<Schemas["SessionUsage"]>;
export type Share = FromServer<Schemas["ShareView"]>;
export type ShareCreated = FromServer<Schemas["ShareCreated"]>;
export type SharedRun = FromServer<Schemas["SharedRun"]>;
export type SignIn = FromServer<Schemas["SignInView"]>;
export type Step = FromServer<Schemas["StepView"]>;
export type StepMetrics = FromServer<Schemas["StepMetrics"]>;
export type Evaluation = FromServer<Schemas["Evaluation"]>;
export type TaskCounts = FromServer<Schemas["TaskCounts"]>;
export type TokenRun = FromServer<Schemas["TokenRun"]>;
export type TokenTimeline = FromServer<Schemas["TokenTimeline"]>;
export type TrajectoryCall = FromServer<Schemas["TrajectoryCall"]>;
export type Usage = FromServer<Schemas["Usage"]>;
export type UsageBy = Schemas["UsageBy"];
export type UsageDays = FromServer<Schemas["UsageDays"]>;
export type UsagePage = FromServer<Schemas["UsageList"]>;
export type Webhook = FromServer<Schemas["WebhookView"]>;
export type WebhookCreate = Schemas["WebhookCreate"];
export type WebhookCreated = FromServer<Schemas["WebhookCreated"]>;
export type WebhookTopic = Schemas["WebhookTopic"];

export interface Items<T> {
  items: T[];
}
export interface Page<T> extends Items<T> {
  next_cursor: string | null;
}
