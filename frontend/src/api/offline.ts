// Whether these pages show a run that was exported to a folder (`tinkerscript view`): nothing of it moves or is changed.

/** When it was exported; null where a server stands behind the pages. */
export const exportedAt: string | null =
  typeof document === "undefined" ? null : (document.querySelector<HTMLMetaElement>("meta[name=tinkerscript-exported-at]")?.content ?? null);

export const isExported = exportedAt !== null;

/** The pages that one run has. All others are about a server, its people and its other runs. */
export function isShownOffline(path: string): boolean {
  return /^\/(sessions|runs)\/(?!new(\/|$))[^/]+(\/|$)/.test(path);
}
