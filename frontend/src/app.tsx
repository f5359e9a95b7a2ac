// The routes, and the one cache of what the API returned.
import { QueryCache, QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { createBrowserRouter, Navigate, RouterProvider } from "react-router";
import { accountQuery } from "./api/account";
import { ApiError } from "./api/client";
import { NewPasswordPage } from "./features/account/new-password-page";
import { ProviderReturnPage } from "./features/account/provider-return-page";
import { ResetPasswordPage } from "./features/account/reset-password-page";
import { SignInPage } from "./features/account/sign-in-page";
import { SignUpPage } from "./features/account/sign-up-page";
import { VerifyEmailPage } from "./features/account/verify-email-page";
import { RouteError } from "./route-error";
import { Loading } from "./ui/loading";

const client = new QueryClient({
  defaultOptions: {
    // "always": a request without a network fails with a message, instead of waiting silently.
    mutations: { networkMode: "always" },
    queries: {
      networkMode: "always",
      staleTime: 2_000,
      retry: (failures, error) => failures < 2 && (!(error instanceof ApiError) || error.status === 0 || error.status >= 500),
    },
  },
  // Signed out elsewhere: asking who we are again leads to the sign-in page.
  queryCache: new QueryCache({
    onError: (error, query) => {
      const isAccount = query.queryKey[0] === accountQuery.queryKey[0];
      if (error instanceof ApiError && error.status === 401 && !isAccount) void client.invalidateQueries({ queryKey: accountQuery.queryKey });
    },
  }),
});

const router = createBrowserRouter([
  { path: "/signin", element: <SignInPage /> },
  { path: "/signin/done", element: <ProviderReturnPage /> },
  { path: "/signup", element: <SignUpPage /> },
  { path: "/reset-password", element: <ResetPasswordPage /> },
  { path: "/reset-password/:key", element: <NewPasswordPage /> },
  { path: "/verify-email/:key", element: <VerifyEmailPage /> },
  { path: "/shared", lazy: async () => ({ Component: (await import("./features/sessions/shared/shared-page")).SharedPage }), HydrateFallback: Loading, ErrorBoundary: RouteError },
  {
    // Loaded when first opened: who signs in needs no table, menu or chart.
    lazy: async () => ({ Component: (await import("./shell")).Shell }),
    HydrateFallback: Loading,
    ErrorBoundary: RouteError,
    children: [
      { path: "/", element: <Navigate to="/sessions" replace /> },
      { path: "/home", lazy: async () => ({ Component: (await import("./features/sessions/home/home-page")).HomePage }) },
      { path: "/sessions", lazy: async () => ({ Component: (await import("./features/sessions/list/sessions-page")).SessionsPage }) },
      { path: "/sessions/new", lazy: async () => ({ Component: (await import("./features/sessions/new/new-session-page")).NewSessionPage }) },
      { path: "/sessions/:id", lazy: async () => ({ Component: (await import("./features/sessions/detail/session-page")).SessionPage }) },
      { path: "/sessions/:id/health", lazy: async () => ({ Component: (await import("./features/sessions/health/health-page")).HealthPage }) },
      { path: "/sessions/:id/episodes", lazy: async () => ({ Component: (await import("./features/sessions/episodes/episodes-page")).EpisodesPage }) },
      { path: "/sessions/:id/episodes/:episodeId", lazy: async () => ({ Component: (await import("./features/sessions/episodes/episode-page")).EpisodePage }) },
      { path: "/sessions/:id/steps/:step", lazy: async () => ({ Component: (await import("./features/sessions/episodes/step-page")).StepPage }) },
      { path: "/serving", lazy: async () => ({ Component: (await import("./features/sessions/serving/serving-page")).ServingPage }) },
      { path: "/playground", lazy: async () => ({ Component: (await import("./features/playground/playground-page")).PlaygroundPage }) },
      { path: "/compare", lazy: async () => ({ Component: (await import("./features/sessions/compare/compare-page")).ComparePage }) },
      { path: "/keys", lazy: async () => ({ Component: (await import("./features/keys/keys-page")).KeysPage }) },
      { path: "/members", lazy: async () => ({ Component: (await import("./features/members/members-page")).MembersPage }) },
      { path: "/usage", lazy: async () => ({ Component: (await import("./features/usage/usage-page")).UsagePage }) },
      { path: "/webhooks", lazy: async () => ({ Component: (await import("./features/webhooks/webhooks-page")).WebhooksPage }) },
      { path: "/audit", lazy: async () => ({ Component: (await import("./features/audit/audit-page")).AuditPage }) },
      { path: "/account", lazy: async () => ({ Component: (await import("./features/account/account-page")).AccountPage }) },
      { path: "*", lazy: async () => ({ Component: (await import("./not-found-page")).NotFoundPage }) },
    ],
  },
]);

export function App() {
  return (
    <QueryClientProvider client={client}>
      <RouterProvider router={router} />
    </QueryClientProvider>
  );
}
