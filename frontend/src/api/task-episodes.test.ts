import { QueryClient } from "@tanstack/react-query";
import { expect, test, vi } from "vitest";
import { asked } from "../../scripts/asked";
import { nearestPlaysQuery, taskEpisodesQuery, versionEdgesQuery } from "./task-episodes";

/** Episodes as a server lists them: the task and the version of each, the oldest first. */
function served(episodes: readonly [string, number][]): string[] {
  const asked: string[] = [];
  vi.stubGlobal("fetch", (request: Request) => {
    const query = new URL(request.url).searchParams;
    asked.push(query.get("task") ?? "");
    const found = episodes.filter(([task]) => !query.get("task") || task === query.get("task"));
    const [task, version] =
      (query.get("sort") === "oldest" ? found[0] : found[found.length - 1]) ?? [];
    const items =
      task === undefined
        ? []
        : [{ task, policy_version_first: version, policy_version_last: version }];
    return Promise.resolve(
      new Response(JSON.stringify({ items, next_cursor: null }), {
        headers: { "Content-Type": "application/json" },
      }),
    );
  });
  return asked;
}

const edges = (id: string) => new QueryClient().fetchQuery(versionEdgesQuery(id, false));

test("where tasks take turns, the first version to compare with is one that had the last task", async () => {
  served([
    ["fog", 0],
    ["mist", 1],
    ["rain", 2],
    ["mist", 3],
  ]);
  expect(await edges("ses_1")).toEqual({ low: 0, high: 3, shared: 1 });
});

test("a run without such an episode has no versions to compare", async () => {
  expect([served([]), await edges("ses_2")]).toEqual([["", ""], null]);
});

test("a task's episodes are the newest, and those of the versions that are compared", async () => {
  const client = new QueryClient();
  const urls = await asked(
    () => client.fetchQuery(taskEpisodesQuery("ses_1", true, "fog", [8, 12])),
    { items: [{ episode_id: "epi_1" }], next_cursor: null },
  );
  expect(urls.map((url) => new URL(url, "http://x").searchParams.get("version"))).toEqual([
    null,
    "8",
    "12",
  ]);
  expect(
    client.getQueryData(taskEpisodesQuery("ses_1", true, "fog", [8, 12]).queryKey),
  ).toHaveLength(1); // once, however often it is listed
});

test("the nearest plays of two versions are asked for as the two were chosen", async () => {
  const urls = await asked(
    () => new QueryClient().fetchQuery(nearestPlaysQuery("ses_1", false, 8, 12)),
    { items: [], tasks_in_all: 0, reach: null },
  );
  expect(urls).toEqual([
    "/v1/sessions/ses_1/episodes/nearest?held_out=false&from_version=8&to_version=12",
  ]);
});
