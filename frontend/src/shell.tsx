// The frame around every page of a signed-in user: product, project, places, account.
import { useQuery } from "@tanstack/react-query";
import { Suspense, useEffect } from "react";
import { Link, Outlet, useLocation } from "react-router";
import { replaceAddress, useBase, runIn } from "./address";
import { accountQuery } from "./api/account";
import { ApiError } from "./api/errors";
import { currentProject, inProject } from "./api/project";
import type { Account } from "./api/types";
import { AccountMenu } from "./features/account/account-menu";
import { holdsTyped, SignInAgain, useTypedMarks } from "./features/account/sign-in-again";
import { AlertCenter } from "./features/alerts/alert-center";
import { RunGate } from "./features/sessions/run-gate";
import { PaletteOpener } from "./palette-opener";
import { RouteErrorBoundary } from "./route-error";
import { Loading } from "./ui/loading";
import { ErrorNotice } from "./ui/notice";
import { ConnectionBar, HasConnectionBar } from "./ui/connection-bar";
import { Empty } from "./ui/panel";
import { placesFor, Sidebar } from "./sidebar";
import { Toaster } from "./ui/toasts";
import { UserText } from "./ui/plain-text";
import { Wordmark } from "./ui/wordmark";

export function Shell() {
  const { data: account, error } = useQuery(accountQuery);
  const here = useLocation();
  const base = useBase();
  useTypedMarks();
  const isOut = error instanceof ApiError && error.status === 401;
  if (isOut && !(account && holdsTyped(document))) {
    return (
      <Elsewhere to={`/signin?next=${encodeURIComponent(base + here.pathname + here.search)}`} />
    );
  }
  if (!account) {
    return (
      <div className="mx-auto max-w-lg p-8">
        {error ? <ErrorNotice error={error} /> : <Loading />}
      </div>
    );
  }
  const project = currentProject(account);
  // An address of before, or one that was typed: it goes on in the project that was open last.
  if (base === "" && project)
    return <Elsewhere to={inProject(project.id, here.pathname + here.search + here.hash)} />;
  const run = runIn(here.pathname);
  return (
    <HasConnectionBar value={true}>
      <div className="min-h-screen">
        <a
          href="#content"
          className="print:hidden sr-only focus:not-sr-only focus:absolute focus:p-3"
        >
          Skip to content
        </a>
        <header className="print:hidden border-b border-line bg-surface">
          <div className="flex h-12 items-center gap-x-3 px-4">
            <Link to="/home" aria-label="TinkerScript, home" className="flex rounded">
              <Wordmark compact />
            </Link>
            <div className="flex min-w-0 flex-1 items-center justify-end">
              <AlertCenter />
              <PaletteOpener account={account} pages={placesFor(account)} />
              <AccountMenu email={account.email} invited={account.invitations.length > 0} />
            </div>
          </div>
        </header>
        <ConnectionBar />
        <Toaster />
        {isOut && <SignInAgain email={account.email} />}
        <div className="lg:flex lg:min-h-[calc(100vh-3rem)]">
          <Sidebar account={account} />
          <main id="content" className="mx-auto max-w-[96rem] min-w-0 flex-1 px-6 py-6 print:p-0">
            {base !== "" && !project ? (
              <NoProject account={account} />
            ) : (
              <RouteErrorBoundary>
                <Suspense fallback={<Loading />}>
                  {run ? (
                    <RunGate key={run} id={run}>
                      <Outlet />
                    </RunGate>
                  ) : (
                    <Outlet />
                  )}
                </Suspense>
              </RouteErrorBoundary>
            )}
          </main>
        </div>
      </div>
    </HasConnectionBar>
  );
}

/** To an address that is not below the present project. */
function Elsewhere({ to }: { to: string }) {
  useEffect(() => {
    replaceAddress(to);
  }, [to]);
  return <Loading />;
}

function NoProject({ account }: { account: Account }) {
  return (
    <Empty isPage title="There is no such project, or you are not a member of it">
      <p className="mb-3">Ask one of its owners to invite {account.email}. Your own projects:</p>
      <ul>
        {account.projects.map(({ id, name }) => (
          <li key={id}>
            <a href={inProject(id, "/home")} className="rounded text-accent hover:underline">
              <UserText text={name} />
            </a>
          </li>
        ))}
      </ul>
    </Empty>
  );
}
