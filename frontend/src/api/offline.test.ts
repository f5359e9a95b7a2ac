import { expect, test } from "vitest";
import { baseOf } from "./project";
import { isExported, isInDemo, isShownOffline } from "./offline";

test("an exported run has its own pages and no other", () => {
  for (const path of [
    "/sessions/ses_1",
    "/sessions/ses_1/",
    "/sessions/ses_1/episodes/epi_2",
    "/sessions/ses_1/steps/3",
    "/sessions/ses_1/health",
    "/sessions/ses_1/steps/3/groups/mist",
    "/runs/ses_1/steps/3",
  ])
    expect(isShownOffline(path)).toBe(true);
  for (const path of [
    "/",
    "/home",
    "/sessions",
    "/sessions/",
    "/sessions/new",
    "/keys",
    "/usage",
    "/playground",
    "/compare",
    "/account",
    "/shared",
  ])
    expect(isShownOffline(path)).toBe(false);
});

test("without a page's mark a server is behind it", () => {
  expect(isExported).toBe(false);
});

test("the demo run has addresses of its own, below no project", () => {
  for (const path of ["/demo", "/demo/", "/demo/sessions/ses_1/charts"])
    expect([isInDemo(path), baseOf(path)]).toEqual([true, "/demo"]);
  for (const path of ["/", "/demos", "/sessions/demo", "/projects/demo/home"])
    expect(isInDemo(path)).toBe(false);
});
