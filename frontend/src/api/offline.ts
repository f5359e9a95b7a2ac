// Whether these pages show a run that was exported to a folder (`tinkerscript view`), or the
// server's demo run, which is one: nothing of it moves or is changed.

/** What all addresses of the demo run begin with, those of its data too. */
export const DEMO = "/demo";

export function isInDemo(pathname: string): boolean {
  return pathname === DEMO || pathname.startsWith(`${DEMO}/`);
}

export const isDemo = typeof location !== "undefined" && isInDemo(location.pathname);

/** When it was exported to a folder; null where a server stands behind the pages. */
export const exportedAt: string | null =
  typeof document === "undefined"
    ? null
    : (document.querySelector<HTMLMetaElement>("meta[name=tinkerscript-exported-at]")?.content ??
      null);

export const isExported = exportedAt !== null || isDemo;

/** The pages that one run has. All others are about a server, its people and its other runs. */
export function isShownOffline(path: string): boolean {
  return /^\/(sessions|runs)\/(?!new(\/|$))[^/]+(\/|$)/.test(path);
}
