// Build and development server. In development the API, sign-in and the live channel come from a running server.
import tailwindcss from "@tailwindcss/vite";
import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";
import { manual } from "./scripts/manual";
import { routePreload } from "./scripts/route-preload";

const server = process.env.TINKERSCRIPT_BASE_URL ?? "http://127.0.0.1:8000";

/** The frame of a page and what nearly all are made of, with what these import. Curves are drawn after a page's words are there. */
const FRAME = new RegExp(
  [
    "/node_modules/(@radix-ui|lucide-react|@tanstack/(query-core|react-query))/",
    "/src/(shell\\.tsx|api/|live/|ui/(?!plot|sorted-table))",
    "/src/features/sessions/([^/]+$|compare/compared-runs|detail/(option-rows|runtime-log|step-columns)|episodes/fate-badge|serving/(endpoint-panel|use-serve))",
  ].join("|"),
);

/** What lists that sort and long lists stand on. An episode's page has neither. */
const TABLES =
  /\/node_modules\/(@tanstack\/(react-table|table-core|react-store|store|react-virtual|virtual-core)|use-sync-external-store)\/|\/src\/(ui\/sorted-table|features\/sessions\/episodes\/episodes-table)\./;

export default defineConfig({
  plugins: [react(), tailwindcss(), routePreload(), manual()],
  build: {
    outDir: process.env.PAGES_FOLDER ?? "dist",
    emptyOutDir: true,
    target: "es2022",
    rolldownOptions: {
      output: {
        codeSplitting: {
          // A file of its own for each would be a request, and a browser has six at once. So: what everybody loads first;
          // the frame of a page with what nearly all pages are made of; the schema of a run's options, which forms and
          // searches read; tables; and what else some of them share, such as tokens.
          groups: [
            { name: "first", tags: ["$initial"], priority: 2 },
            { name: "frame", test: FRAME, priority: 1 },
            { name: "options", test: /\/src\/api\/session-config\.json$/, priority: 3 },
            { name: "tables", test: TABLES, priority: 1, includeDependenciesRecursively: false },
            { name: "shared", minShareCount: 2 },
          ],
        },
      },
    },
  },
  server: {
    proxy: {
      "/v1": server,
      "/demo/v1": server,
      "/_allauth": server,
      "/ws": { target: server, ws: true },
    },
  },
  test: {
    environment: "node",
    include: ["src/**/*.test.ts", "scripts/**/*.test.ts"],
    testTimeout: 60_000, // one of them runs the generator of types, which takes seconds on a busy machine
    // A worker keeps what it has imported for the files that follow: to load it anew for each was three quarters of the
    // time. What a test puts in place of a global is taken away after it; no test leaves a module's state behind.
    pool: "threads",
    isolate: false,
    setupFiles: ["scripts/unstub-globals.ts"],
  },
});
