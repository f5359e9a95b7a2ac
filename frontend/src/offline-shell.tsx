// The frame around the pages of an exported run: no account, no project, nothing that a server would have to do.
import { useQuery } from "@tanstack/react-query";
import { Suspense } from "react";
import { Navigate, Outlet, useLocation } from "react-router";
import { unwrap, api } from "./api/client";
import { exportedAt, isDemo, isShownOffline } from "./api/offline";
import { ButtonLink } from "./ui/button";
import { dateTime } from "./ui/format";
import { RunPlaces } from "./features/sessions/run-places";
import { RouteErrorBoundary } from "./route-error";
import { runIn } from "./address";
import { useMenu } from "./use-menu";
import { Loading } from "./ui/loading";
import { ErrorNotice } from "./ui/notice";
import { Empty } from "./ui/panel";
import { Wordmark } from "./ui/wordmark";

export function OfflineShell() {
  const { pathname } = useLocation();
  const run = runIn(pathname);
  const { button, folded } = useMenu();
  return (
    <div className="min-h-screen">
      <a
        href="#content"
        className="print:hidden sr-only focus:not-sr-only focus:absolute focus:p-3"
      >
        Skip to content
      </a>
      <header className="print:hidden border-b border-line bg-surface">
        <div className="flex min-h-12 flex-wrap items-center justify-between gap-x-4 gap-y-1 px-4 py-2">
          <Wordmark />
          {isDemo ? (
            <DemoLine />
          ) : (
            <span className="text-xs text-muted max-sm:order-last max-sm:basis-full sm:ml-auto">
              Exported run, as it was on {dateTime(exportedAt ?? "")}
            </span>
          )}
          {run && button}
        </div>
      </header>
      <div className="min-h-[calc(100vh-3rem)] lg:flex">
        {run && (
          <aside
            id="places"
            className={`print:hidden border-line bg-surface px-2 py-3 max-lg:border-b lg:sticky lg:top-0 lg:max-h-screen lg:w-52 lg:shrink-0 lg:self-stretch lg:overflow-y-auto lg:border-r ${folded}`}
          >
            <RunPlaces id={run} />
          </aside>
        )}
        <main id="content" className="mx-auto max-w-[96rem] min-w-0 flex-1 px-6 py-6 print:p-0">
          <RouteErrorBoundary>
            <Suspense fallback={<Loading />}>
              {isShownOffline(pathname) ? <Outlet /> : <Elsewhere pathname={pathname} />}
            </Suspense>
          </RouteErrorBoundary>
        </main>
      </div>
    </div>
  );
}

/** What is shown, and the way back, which leads out of the pages that this router knows. */
function DemoLine() {
  return (
    <>
      <span className="text-xs text-muted max-sm:order-last max-sm:basis-full">
        Demo run: a recording of the quickstart, on two busy CPU cores
      </span>
      <a
        href="/home"
        className="ml-auto shrink-0 rounded text-xs text-accent underline underline-offset-2"
      >
        Back to Home
      </a>
    </>
  );
}

/** Lists of runs lead to the one that there is; what is about a server says so. */
function Elsewhere({ pathname }: { pathname: string }) {
  const { data, error } = useQuery({
    queryKey: ["exported run"],
    queryFn: () => unwrap(api.GET("/v1/sessions")),
  });
  const id = data?.items[0]?.id;
  if (id === undefined) return error ? <ErrorNotice error={error} /> : <Loading />;
  if (["/", "/home", "/sessions", "/sessions/"].includes(pathname))
    return <Navigate to={`/sessions/${id}`} replace />;
  return (
    <Empty isPage title="This page needs a server">
      <p className="mb-3">What is shown here is one run that was recorded, to read.</p>
      <ButtonLink to={`/sessions/${id}`}>The run</ButtonLink>
    </Empty>
  );
}
