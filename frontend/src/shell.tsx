// The frame around every page of a signed-in user: product, project, places, account.
import { useQuery } from "@tanstack/react-query";
import { Suspense } from "react";
import { Link, Navigate, NavLink, Outlet, useLocation } from "react-router";
import { accountQuery } from "./api/account";
import { ApiError } from "./api/errors";
import { currentProject } from "./api/project";
import { AccountMenu } from "./features/account/account-menu";
import { holdsTyped, SignInAgain, useTypedMarks } from "./features/account/sign-in-again";
import { AlertCenter } from "./features/alerts/alert-center";
import { ProjectSwitcher } from "./features/account/project-switcher";
import { PaletteOpener } from "./palette-opener";
import { RouteErrorBoundary } from "./route-error";
import { Loading } from "./ui/loading";
import { ErrorNotice } from "./ui/notice";
import { OfflineBar } from "./ui/offline-bar";
import { Toaster } from "./ui/toasts";
import { Wordmark } from "./ui/wordmark";

const NAV_ITEMS = [
  { to: "/sessions", label: "Sessions", forOwners: false },
  { to: "/serving", label: "Serving", forOwners: false },
  { to: "/playground", label: "Playground", forOwners: false },
  { to: "/keys", label: "API keys", forOwners: false },
  { to: "/members", label: "Members", forOwners: false },
  { to: "/usage", label: "Usage", forOwners: false },
  { to: "/webhooks", label: "Webhooks", forOwners: true },
  { to: "/audit", label: "Audit log", forOwners: true },
];

export function Shell() {
  const { data: account, error } = useQuery(accountQuery);
  const here = useLocation();
  useTypedMarks();
  const isOut = error instanceof ApiError && error.status === 401;
  if (isOut && !(account && holdsTyped(document))) {
    return <Navigate to={`/signin?next=${encodeURIComponent(here.pathname + here.search)}`} replace />;
  }
  if (!account) {
    return <div className="mx-auto max-w-lg p-8">{error ? <ErrorNotice error={error} /> : <Loading />}</div>;
  }
  const pages = NAV_ITEMS.filter((item) => !item.forOwners || currentProject(account)?.role === "owner");
  return (
    <div className="min-h-screen">
      <a href="#content" className="print:hidden sr-only focus:not-sr-only focus:absolute focus:p-3">
        Skip to content
      </a>
      <header className="print:hidden border-b border-line bg-surface">
        <div className="mx-auto flex max-w-7xl flex-wrap items-center gap-x-3 px-6 xl:gap-x-6">
          <Link to="/home" aria-label="TinkerScript, home" className="flex rounded">
            <Wordmark compact />
          </Link>
          <ProjectSwitcher account={account} />
          <nav aria-label="Main" className="order-last -mx-2 flex w-full flex-wrap gap-x-1 xl:order-none xl:mx-0 xl:w-auto">
            {pages.map((item) => (
              <NavLink
                key={item.to}
                to={item.to}
                className="flex h-10 items-center border-b-2 border-transparent px-2 font-medium whitespace-nowrap text-muted hover:text-ink xl:h-12 aria-[current=page]:border-accent aria-[current=page]:text-ink"
              >
                {item.label}
              </NavLink>
            ))}
          </nav>
          <div className="flex h-12 min-w-0 flex-1 basis-24 items-center justify-end">
            <AlertCenter />
            <PaletteOpener account={account} pages={pages} />
            <AccountMenu email={account.email} invited={account.invitations.length > 0} />
          </div>
        </div>
      </header>
      <OfflineBar />
      <Toaster />
      {isOut && <SignInAgain email={account.email} />}
      <main id="content" className="mx-auto max-w-7xl px-6 py-6 print:p-0">
        <RouteErrorBoundary>
          <Suspense fallback={<Loading />}>
            <Outlet />
          </Suspense>
        </RouteErrorBoundary>
      </main>
    </div>
  );
}
