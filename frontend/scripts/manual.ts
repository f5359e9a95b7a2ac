// Puts the manual into the build: its pages as they are written, and an index of them by which the console lists and finds them.
import { existsSync, readFileSync } from "node:fs";
import type { Plugin } from "vite";

export interface ManualEntry {
  path: string;
  title: string;
  headings: string[];
}

const ENTRY = /^\s*- (?:(.+): )?(\S+\.md)$/gm;
const PICTURE = /!\[[^\]]*\]\(([^)\s]+\.(?:svg|webp))\)/g;

/** The pages of the site's menu, in its order; decisions are for those who change the server. */
export function manualPaths(menu: string): [path: string, title: string | undefined][] {
  const found = [...menu.slice(menu.indexOf("\nnav:")).matchAll(ENTRY)].map(
    ([, title, path = ""]): [string, string | undefined] => [path, title],
  );
  return found.filter(([path]) => !path.startsWith("decisions/"));
}

/** A page's own title where the menu has none, and its headings below it. */
export function manualEntry(path: string, title: string | undefined, text: string): ManualEntry {
  const lines = text.replace(/^```[\s\S]*?^```/gm, "").split("\n");
  const headings = lines.flatMap((line) => /^##+ (.+)$/.exec(line)?.[1] ?? []);
  const own = lines.find((line) => line.startsWith("# "))?.slice(2);
  return {
    path: path.replace(/\.md$/, ""),
    title: title ?? own ?? path,
    headings: headings.map((heading) => heading.replaceAll("`", "")),
  };
}

/** The files of the pictures that a page shows. */
export function picturesOf(path: string, text: string): string[] {
  return [...text.matchAll(PICTURE)].map(([, picture = ""]) =>
    new URL(picture, `file:///${path}`).pathname.slice(1),
  );
}

export function manual(folder = "..", menu = "../mkdocs.yml"): Plugin {
  const read = (path: string) => readFileSync(`${folder}/docs/${path}`, "utf8");
  // Others are made of code, or have parts that are, when the site is made.
  const isWritten = (path: string) =>
    existsSync(`${folder}/docs/${path}`) && !/^::: /m.test(read(path));
  return {
    name: "manual",
    apply: "build",
    generateBundle() {
      const entries = manualPaths(readFileSync(menu, "utf8"))
        .filter(([path]) => isWritten(path))
        .map(([path, title]) => {
          const source = read(path);
          this.emitFile({ type: "asset", fileName: `manual/${path}`, source });
          for (const at of picturesOf(path, source)) {
            this.emitFile({
              type: "asset",
              fileName: `manual/${at}`,
              source: readFileSync(`${folder}/docs/${at}`),
            });
          }
          return manualEntry(path, title, source);
        });
      this.emitFile({
        type: "asset",
        fileName: "manual/index.json",
        source: JSON.stringify(entries),
      });
    },
  };
}
