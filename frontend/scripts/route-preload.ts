// Adds to the build's /start.js what asks for the code of the page in the address while the main script is still on its
// way, which would ask for it only once it has been read and run.
import { readFileSync } from "node:fs";
import type { Plugin } from "vite";

const START = "start.js";
const PAGE = /path: "([^"*]+)",\s+load: async \(\) =>\s+\(await import\("\.\/([^"]+)"\)\)/g;

interface Code {
  fileName: string;
  imports: string[];
}

/** The files that a module's code is in, each once, without those in `known`. */
export function closure(
  code: Code,
  find: (fileName: string) => Code | undefined,
  known: ReadonlySet<string> = new Set(),
): string[] {
  const found = new Set<string>();
  const visit = ({ fileName, imports }: Code) => {
    if (found.has(fileName) || known.has(fileName)) return;
    found.add(fileName);
    for (const name of imports) {
      const next = find(name);
      if (next) visit(next);
    }
  };
  visit(code);
  return [...found];
}

/** The pattern of a path of pages.ts, which may stand below a project: a part that begins with a colon is any part. */
export function pattern(path: string): string {
  return `^(?:/projects/[^/]+)?${path.replace(/:\w+/g, "[^/]+")}/?$`;
}

export function script(routes: [string, string[]][]): string {
  const files = [...new Set(routes.flatMap(([, names]) => names))];
  const table = routes.map(([path, names]) => [
    pattern(path),
    names.map((name) => files.indexOf(name)),
  ]);
  return `(() => {
const files = ${JSON.stringify(files)};
const route = ${JSON.stringify(table)}.find(([path]) => new RegExp(path).test(location.pathname));
for (const at of route ? route[1] : []) {
  const link = document.createElement("link");
  link.rel = "modulepreload";
  link.href = "/" + files[at];
  document.head.append(link);
}
})();
`;
}

/** The paths of pages.ts, each with its module; a path that matches the rest of an address has none. */
export function pagesIn(source: string): [path: string, module: string][] {
  return [...source.matchAll(PAGE)].map(([, path = "", module = ""]) => [path, module]);
}

export function routePreload(): Plugin {
  return {
    name: "route-preload",
    apply: "build",
    generateBundle(_, bundle) {
      const chunks = Object.values(bundle).flatMap((file) => (file.type === "chunk" ? [file] : []));
      const find = (fileName: string) => chunks.find((chunk) => chunk.fileName === fileName);
      // A chunk of its own, or one that it shares.
      const ofModule = (module: string) =>
        chunks.find((chunk) => chunk.moduleIds.some((id) => id.endsWith(`/src/${module}.tsx`)));
      const entry = chunks.find((chunk) => chunk.isEntry);
      const shell = ofModule("shell");
      if (!entry || !shell) throw new Error("The build has no entry, or no frame of a page.");
      const known = new Set(closure(entry, find));
      const routes = pagesIn(readFileSync("src/pages.ts", "utf8")).map(
        ([path, module]): [string, string[]] => {
          const page = ofModule(module);
          if (!page) throw new Error(`The build has no code of its own for ${path}.`);
          return [
            path,
            [...new Set([...closure(shell, find, known), ...closure(page, find, known)])],
          ];
        },
      );
      // In the place of the one that vite copied: a request of its own would be one more before anything is painted.
      this.emitFile({
        type: "asset",
        fileName: START,
        source: readFileSync(`public/${START}`, "utf8") + script(routes),
      });
    },
  };
}
