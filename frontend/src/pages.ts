// The pages of a signed-in person. Each is loaded when it is first opened: who signs in needs no table, menu or chart.
// The build reads the paths and modules below (scripts/route-preload.ts).
import type { QueryClient } from "@tanstack/react-query";
import type { ComponentType } from "react";
import { isExported } from "./api/offline";

/** The parts of an address that a path names. */
type Params = Readonly<Record<string, string | undefined>>;

interface PageEntry {
  path: string;
  load: () => Promise<ComponentType>;
  /** The path of an earlier entry of the same page: from one to the other it stays, and the focus with it. */
  sharedWith?: string;
  /** Asks for the page's first data as soon as its code is there, and not only once the frame around it is. */
  warm?: (client: QueryClient, params: Params) => Promise<unknown>;
}

export const PAGES: readonly PageEntry[] = [
  {
    path: "/home",
    load: async () => (await import("./features/sessions/home/home-page")).HomePage,
  },
  {
    path: "/sessions",
    load: async () => (await import("./features/sessions/list/sessions-page")).SessionsPage,
    warm: async (client) =>
      (await import("./features/sessions/list/sessions-page")).sessionsWarm(client),
  },
  {
    path: "/sessions/new",
    load: async () => (await import("./features/sessions/new/new-session-page")).NewSessionPage,
  },
  {
    path: "/sessions/:id",
    load: async () => (await import("./features/sessions/detail/session-page")).SessionPage,
    warm: async (client, params) =>
      (await import("./features/sessions/detail/use-live-run")).liveRunWarm(client, params),
  },
  {
    path: "/sessions/:id/charts",
    load: async () => (await import("./features/sessions/detail/charts-page")).ChartsPage,
    warm: async (client, params) =>
      (await import("./features/sessions/detail/use-live-run")).liveRunWarm(client, params),
  },
  {
    path: "/sessions/:id/evals",
    load: async () => (await import("./features/sessions/detail/evals-page")).EvalsPage,
  },
  {
    path: "/sessions/:id/checkpoints",
    load: async () =>
      (await import("./features/sessions/checkpoints/checkpoints-page")).CheckpointsPage,
  },
  {
    path: "/sessions/:id/settings",
    load: async () => (await import("./features/sessions/detail/settings-page")).SettingsPage,
  },
  {
    path: "/sessions/:id/health",
    load: async () => (await import("./features/sessions/health/health-page")).HealthPage,
  },
  {
    path: "/sessions/:id/tasks",
    load: async () => (await import("./features/sessions/tasks/tasks-page")).TasksPage,
  },
  {
    path: "/sessions/:id/episodes",
    load: async () => (await import("./features/sessions/episodes/episodes-page")).EpisodesPage,
  },
  {
    path: "/sessions/:id/episodes/:episodeId",
    load: async () => (await import("./features/sessions/episodes/episode-page")).EpisodePage,
    warm: async (client, params) =>
      (await import("./features/sessions/episodes/episode-page")).episodeWarm(client, params),
  },
  {
    path: "/sessions/:id/steps",
    load: async () => (await import("./features/sessions/episodes/steps-page")).StepsPage,
  },
  {
    path: "/sessions/:id/steps/:step",
    load: async () => (await import("./features/sessions/episodes/step-page")).StepPage,
  },
  {
    path: "/sessions/:id/steps/:step/groups/:group",
    load: async () => (await import("./features/sessions/episodes/step-page")).StepPage,
    sharedWith: "/sessions/:id/steps/:step",
  },
  {
    path: "/sessions/:id/steps/:step/groups/:group/episodes/:episodeId",
    load: async () => (await import("./features/sessions/episodes/episode-page")).EpisodePage,
    warm: async (client, params) =>
      (await import("./features/sessions/episodes/episode-page")).episodeWarm(client, params),
  },
  {
    path: "/runs/*",
    load: async () => (await import("./features/sessions/runs-redirect")).RunsRedirect,
  },
  { path: "/manual", load: async () => (await import("./features/manual/manual-page")).ManualPage },
  {
    path: "/manual/*",
    load: async () => (await import("./features/manual/manual-page")).ManualPage,
    sharedWith: "/manual",
  },
  {
    path: "/words",
    load: async () => (await import("./features/sessions/words/words-page")).WordsPage,
  },
  {
    path: "/serving",
    load: async () => (await import("./features/sessions/serving/serving-page")).ServingPage,
  },
  {
    path: "/playground",
    load: async () => (await import("./features/playground/playground-page")).PlaygroundPage,
  },
  {
    path: "/compare",
    load: async () => (await import("./features/sessions/compare/compare-page")).ComparePage,
  },
  { path: "/keys", load: async () => (await import("./features/keys/keys-page")).KeysPage },
  {
    path: "/members",
    load: async () => (await import("./features/members/members-page")).MembersPage,
  },
  { path: "/usage", load: async () => (await import("./features/usage/usage-page")).UsagePage },
  {
    path: "/capacity",
    load: async () => (await import("./features/capacity/capacity-page")).CapacityPage,
  },
  {
    path: "/webhooks",
    load: async () => (await import("./features/webhooks/webhooks-page")).WebhooksPage,
  },
  {
    path: "/alert-rules",
    load: async () => (await import("./features/alerts/alert-rules-page")).AlertRulesPage,
  },
  { path: "/audit", load: async () => (await import("./features/audit/audit-page")).AuditPage },
  {
    path: "/account",
    load: async () => (await import("./features/account/account-page")).AccountPage,
  },
  { path: "*", load: async () => (await import("./not-found-page")).NotFoundPage },
];

export const loadShell = async () =>
  isExported ? (await import("./offline-shell")).OfflineShell : (await import("./shell")).Shell;
export const loadSharedPage = async () =>
  (await import("./features/sessions/shared/shared-page")).SharedPage;
