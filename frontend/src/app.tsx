// The routes, and the one cache of what the API returned.
import { MutationCache, QueryCache, QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { lazy, Suspense, type ComponentType } from "react";
import { BrowserRouter, matchPath, Navigate, Route, Routes } from "react-router";
import { accountQuery } from "./api/account";
import { ApiError } from "./api/errors";
import { isExported } from "./api/offline";
import { baseOf } from "./api/project";
import { useBase, useRouterKey } from "./address";
import { NewPasswordPage } from "./features/account/new-password-page";
import { ProviderReturnPage } from "./features/account/provider-return-page";
import { ResetPasswordPage } from "./features/account/reset-password-page";
import { SignInPage, SignUpPage } from "./features/account/sign-in-page";
import { VerifyEmailPage } from "./features/account/verify-email-page";
import { loadShell, loadSharedPage, PAGES } from "./pages";
import { RouteErrorBoundary } from "./route-error";
import { Loading } from "./ui/loading";

declare module "@tanstack/react-query" {
  interface Register {
    /** `done`: what is said once it has worked, where the page itself does not show it. */
    mutationMeta: { done?: string };
  }
}

const client = new QueryClient({
  defaultOptions: {
    // "always": a request without a network fails with a message, instead of waiting silently.
    mutations: { networkMode: "always" },
    queries: {
      networkMode: "always",
      staleTime: 2_000,
      retry: (failures, error) =>
        failures < 2 && (!(error instanceof ApiError) || error.status === 0 || error.status >= 500),
    },
  },
  mutationCache: new MutationCache({
    onError: whoAmI,
    onSuccess: (_, __, ___, { meta }) => {
      const done = meta?.done;
      if (!done) return;
      // Loaded when it is first used: who signs in needs none of it. What was done is done, whether it can be told or not.
      void import("./ui/toasts").then(
        ({ showToast }) => {
          showToast(done);
        },
        () => undefined,
      );
    },
  }),
  queryCache: new QueryCache({
    onError: (error, query) => {
      if (query.queryKey[0] !== accountQuery.queryKey[0]) whoAmI(error);
    },
  }),
});

/** Signed out elsewhere, or too long ago: asking who we are again offers to sign in. */
function whoAmI(error: Error) {
  if (error instanceof ApiError && error.status === 401)
    void client.invalidateQueries({ queryKey: accountQuery.queryKey });
}

const onUse = (load: () => Promise<ComponentType>) => lazy(async () => ({ default: await load() }));
const Shell = onUse(loadShell);
const SharedPage = onUse(loadSharedPage);
const made = new Map<string, ReturnType<typeof onUse>>();
const pages = PAGES.map(({ path, load, sharedWith = "" }) => {
  const Page = made.get(sharedWith) ?? onUse(load);
  made.set(path, Page);
  return { path, Page };
});

// The first page's code and data, and who asks for them, are asked for beside the frame's code, not after it. What does
// not arrive, the page itself reports.
const [first] = PAGES.flatMap((page) => {
  const found =
    page.path === "*"
      ? null
      : matchPath(page.path, location.pathname.slice(baseOf(location.pathname).length));
  return found ? [{ page, params: found.params }] : [];
});
if (first) {
  if (!isExported) void client.prefetchQuery(accountQuery);
  for (const asked of [loadShell(), first.page.load(), first.page.warm?.(client, first.params)])
    void asked?.catch(() => undefined);
}

// Without react-router's data routers: nothing here uses their loaders, and the sign-in page would load 17 kB for them.
export function App() {
  const base = useBase();
  const key = useRouterKey();
  return (
    <QueryClientProvider client={client}>
      <BrowserRouter key={key} basename={base || "/"}>
        <RouteErrorBoundary>
          <Suspense fallback={<Loading />}>
            <Routes>
              <Route path="/signin" element={<SignInPage />} />
              <Route path="/signin/done" element={<ProviderReturnPage />} />
              <Route path="/signup" element={<SignUpPage />} />
              <Route path="/reset-password" element={<ResetPasswordPage />} />
              <Route path="/reset-password/:key" element={<NewPasswordPage />} />
              <Route path="/verify-email/:key" element={<VerifyEmailPage />} />
              <Route path="/shared" element={<SharedPage />} />
              <Route element={<Shell />}>
                <Route path="/" element={<Navigate to="/home" replace />} />
                {pages.map(({ path, Page }) => (
                  <Route key={path} path={path} element={<Page />} />
                ))}
              </Route>
            </Routes>
          </Suspense>
        </RouteErrorBoundary>
      </BrowserRouter>
    </QueryClientProvider>
  );
}
