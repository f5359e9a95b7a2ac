import { expect, test } from "vitest";
import { withAnnotations } from "./episodes";
import type { EpisodeAnnotation, EpisodeTimelines } from "./types";

test("a saved annotation is in every page of tokens that was loaded, and the tokens stay", () => {
  const page = (number: number) =>
    ({
      episode: { episode_id: "ep_1", annotations: [] },
      timelines: [{ index: number }],
    }) as unknown as EpisodeTimelines;
  const said: EpisodeAnnotation[] = [
    {
      episode_id: "ep_1",
      by: "a@example.com",
      thumb: "up",
      comment: "look",
      at: "2030-01-01T00:00:00Z",
    },
  ];
  const saved = withAnnotations({ pages: [page(1), page(2)], pageParams: ["0", "5000"] }, said);
  expect(saved?.pages.map((one) => one.episode.annotations)).toEqual([said, said]);
  expect(saved?.pages.map((one) => one.timelines)).toEqual([[{ index: 1 }], [{ index: 2 }]]);
  expect(saved?.pageParams).toEqual(["0", "5000"]);
  expect(withAnnotations(undefined, said)).toBeUndefined();
});
