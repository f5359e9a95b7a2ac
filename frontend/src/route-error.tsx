// What stands in place of a page that could not be shown: its code did not arrive, or it failed; which of them, and by what.
import { useEffect, type ReactNode } from "react";
import { Link, useLocation } from "react-router";
import { Boundary, errorText, isLoadError } from "./ui/boundary";
import { Button } from "./ui/button";
import { CopyBlock } from "./ui/copy";
import { Notice } from "./ui/notice";

/** Shows the error in place of `children`, until another page is opened. */
export function RouteErrorBoundary({ children }: { children: ReactNode }) {
  return (
    <Boundary of={useLocation().pathname} show={(error) => <RouteError error={error} />}>
      {children}
    </Boundary>
  );
}

const LOOK_MS = 3_000;

/** Loads the page again once the server, which was away, answers; not where it answers all the time. */
function useReturn(isLost: boolean): void {
  useEffect(() => {
    if (!isLost) return;
    let wasAway = !navigator.onLine;
    const look = async () => {
      const isThere = await fetch("/healthz").then(
        (response) => response.ok,
        () => false,
      );
      if (isThere && wasAway) location.reload();
      wasAway ||= !isThere;
    };
    const soon = () => void look();
    const timer = setInterval(soon, LOOK_MS);
    addEventListener("online", soon);
    soon();
    return () => {
      clearInterval(timer);
      removeEventListener("online", soon);
    };
  }, [isLost]);
}

function RouteError({ error }: { error: unknown }) {
  useReturn(isLoadError(error));
  const text = errorText(error);
  const isLoad = isLoadError(error);
  return (
    <div className="mx-auto max-w-2xl p-8">
      <Notice tone="bad" title={isLoad ? "This page could not be loaded." : "This page failed."}>
        <p className="mb-3">
          {isLoad
            ? "It comes by itself once you are online and the server answers. If the server was just upgraded, reload."
            : "The console has a fault: nothing of the run is lost. Reload; if it fails again, report the error below with the address of the page."}
        </p>
        <p className="mb-3 font-mono text-xs wrap-anywhere">{text}</p>
        <div className="flex flex-wrap gap-3">
          <Button
            onClick={() => {
              location.reload();
            }}
          >
            Reload
          </Button>
          <Link to="/sessions" className="self-center rounded text-accent hover:underline">
            All sessions
          </Link>
        </div>
      </Notice>
      {!isLoad && error instanceof Error && error.stack && (
        <div className="mt-3">
          <CopyBlock label="Where it failed" text={error.stack} />
        </div>
      )}
    </div>
  );
}
