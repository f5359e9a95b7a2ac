import { expect, test } from "vitest";
import { asked } from "../../../../scripts/asked";
import { episodesPage } from "../../../api/episodes";
import { filterOf, listPart } from "./episode-filter";

test("an address without a filter asks for the newest", async () => {
  expect(filterOf(new URLSearchParams())).toEqual([]);
  expect(await asked(() => episodesPage("ses_1", [], ""))).toEqual([
    "/v1/sessions/ses_1/episodes?limit=100&sort=newest",
  ]);
});

test("every part of the filter goes with every page", async () => {
  const filter = filterOf(
    new URLSearchParams("fate=trained&fate=stale&q=a%26b&reward_min=-0.5&version=3&sort=best"),
  );
  const [url] = await asked(() => episodesPage("s", filter, "1.5~7"));
  expect(url).toBe(
    "/v1/sessions/s/episodes?limit=100&sort=best&q=a%26b&reward_min=-0.5&version=3&fate=trained&fate=stale&cursor=1.5~7",
  );
});

test("what makes no sense in an address is left out", () => {
  expect(
    filterOf(
      new URLSearchParams(
        "fate=happy&sort=upwards&version=1.5&step=x&reward_min=much&eval=perhaps&token=4&q=%20",
      ),
    ),
  ).toEqual([]);
});

test("a link to an episode takes the list with it, and nothing else", () => {
  expect(listPart(new URLSearchParams("token=4&fate=eval&colour=version"))).toBe("?fate=eval");
  expect(listPart(new URLSearchParams("token=4"))).toBe("");
  expect(
    new URLSearchParams(
      listPart(new URLSearchParams({ columns: '["turns"]', view: "tokens" })),
    ).get("columns"),
  ).toBe('["turns"]');
  expect(
    ["turns>=3", "reward/format<= -0.5", "turns>", "turns", ">=1", "turns>=x"].map(
      (metric) => filterOf(new URLSearchParams({ metric })).length,
    ),
  ).toEqual([1, 1, 0, 0, 0, 0]);
});
