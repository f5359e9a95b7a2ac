// The pages of a signed-in person. Each is loaded when it is first opened: who signs in needs no table, menu or chart.
import type { ComponentType } from "react";
import { isExported } from "./api/offline";

export interface PageEntry {
  path: string;
  load: () => Promise<ComponentType>;
}

export const PAGES: readonly PageEntry[] = [
  { path: "/home", load: async () => (await import("./features/sessions/home/home-page")).HomePage },
  { path: "/sessions", load: async () => (await import("./features/sessions/list/sessions-page")).SessionsPage },
  { path: "/sessions/new", load: async () => (await import("./features/sessions/new/new-session-page")).NewSessionPage },
  { path: "/sessions/:id", load: async () => (await import("./features/sessions/detail/session-page")).SessionPage },
  { path: "/sessions/:id/health", load: async () => (await import("./features/sessions/health/health-page")).HealthPage },
  { path: "/sessions/:id/episodes", load: async () => (await import("./features/sessions/episodes/episodes-page")).EpisodesPage },
  { path: "/sessions/:id/episodes/:episodeId", load: async () => (await import("./features/sessions/episodes/episode-page")).EpisodePage },
  { path: "/sessions/:id/steps/:step", load: async () => (await import("./features/sessions/episodes/step-page")).StepPage },
  { path: "/serving", load: async () => (await import("./features/sessions/serving/serving-page")).ServingPage },
  { path: "/playground", load: async () => (await import("./features/playground/playground-page")).PlaygroundPage },
  { path: "/compare", load: async () => (await import("./features/sessions/compare/compare-page")).ComparePage },
  { path: "/keys", load: async () => (await import("./features/keys/keys-page")).KeysPage },
  { path: "/members", load: async () => (await import("./features/members/members-page")).MembersPage },
  { path: "/usage", load: async () => (await import("./features/usage/usage-page")).UsagePage },
  { path: "/webhooks", load: async () => (await import("./features/webhooks/webhooks-page")).WebhooksPage },
  { path: "/alert-rules", load: async () => (await import("./features/alerts/alert-rules-page")).AlertRulesPage },
  { path: "/audit", load: async () => (await import("./features/audit/audit-page")).AuditPage },
  { path: "/account", load: async () => (await import("./features/account/account-page")).AccountPage },
  { path: "*", load: async () => (await import("./not-found-page")).NotFoundPage },
];

export const loadShell = async () => (isExported ? (await import("./offline-shell")).OfflineShell : (await import("./shell")).Shell);
export const loadSharedPage = async () => (await import("./features/sessions/shared/shared-page")).SharedPage;
