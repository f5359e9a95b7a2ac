import { QueryClient } from "@tanstack/react-query";
import { expect, test, vi } from "vitest";
import { versionEdgesQuery } from "./task-episodes";

/** Episodes as a server lists them: the task and the version of each, the oldest first. */
function served(episodes: readonly [string, number][]): string[] {
  const asked: string[] = [];
  vi.stubGlobal("fetch", (request: Request) => {
    const query = new URL(request.url).searchParams;
    asked.push(query.get("task") ?? "");
    const found = episodes.filter(([task]) => !query.get("task") || task === query.get("task"));
    const [task, version] = (query.get("sort") === "oldest" ? found[0] : found[found.length - 1]) ?? [];
    const items = task === undefined ? [] : [{ task, policy_version_first: version, policy_version_last: version }];
    return Promise.resolve(new Response(JSON.stringify({ items, next_cursor: null }), { headers: { "Content-Type": "application/json" } }));
  });
  return asked;
}

const edges = (id: string) => new QueryClient().fetchQuery(versionEdgesQuery(id, false));

test("where tasks take turns, the first version to compare with is one that had the last task", async () => {
  served([["fog", 0], ["mist", 1], ["rain", 2], ["mist", 3]]);
  expect(await edges("ses_1")).toEqual({ low: 0, high: 3, shared: 1 });
});

test("a run without such an episode has no versions to compare", async () => {
  expect([served([]), await edges("ses_2")]).toEqual([["", ""], null]);
});
