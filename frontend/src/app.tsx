// The routes, and the one cache of what the API answered.
import { QueryCache, QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { createBrowserRouter, Navigate, RouterProvider } from "react-router";
import { accountQuery } from "./api/account";
import { ApiError } from "./api/client";
import { NewPasswordPage } from "./features/account/new-password-page";
import { ResetPasswordPage } from "./features/account/reset-password-page";
import { SignInPage } from "./features/account/sign-in-page";
import { SignUpPage } from "./features/account/sign-up-page";
import { VerifyEmailPage } from "./features/account/verify-email-page";
import { AuditPage } from "./features/audit/audit-page";
import { KeysPage } from "./features/keys/keys-page";
import { MembersPage } from "./features/members/members-page";
import { NewSessionPage } from "./features/sessions/new-session-page";
import { SessionsPage } from "./features/sessions/sessions-page";
import { UsagePage } from "./features/usage/usage-page";
import { WebhooksPage } from "./features/webhooks/webhooks-page";
import { Loading, NotFoundPage, Shell } from "./shell";

const client = new QueryClient({
  defaultOptions: {
    queries: {
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
  { path: "/signup", element: <SignUpPage /> },
  { path: "/reset-password", element: <ResetPasswordPage /> },
  { path: "/reset-password/:key", element: <NewPasswordPage /> },
  { path: "/verify-email/:key", element: <VerifyEmailPage /> },
  {
    element: <Shell />,
    HydrateFallback: Loading,
    children: [
      { path: "/", element: <Navigate to="/sessions" replace /> },
      { path: "/sessions", element: <SessionsPage /> },
      { path: "/sessions/new", element: <NewSessionPage /> },
      // Loaded when first opened: the charts are half of the script, and few look at their account.
      { path: "/sessions/:id", lazy: async () => ({ Component: (await import("./features/sessions/session-page")).SessionPage }) },
      { path: "/keys", element: <KeysPage /> },
      { path: "/members", element: <MembersPage /> },
      { path: "/usage", element: <UsagePage /> },
      { path: "/webhooks", element: <WebhooksPage /> },
      { path: "/audit", element: <AuditPage /> },
      { path: "/account", lazy: async () => ({ Component: (await import("./features/account/account-page")).AccountPage }) },
      { path: "*", element: <NotFoundPage /> },
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
