import { expect, test } from "vitest";
import { asked } from "../../../../scripts/asked";
import { inTurn, sessionsPage, sessionsQuery } from "../../../api/sessions";
import type { Session } from "../../../api/types";
import { filterOf, isNarrowed, measureSort, sortsOf, STATE_CHOICES } from "./session-filter";

const EVERY = {
  states: [],
  name: "",
  tag: "",
  option: "",
  model: "",
  since: "",
  until: "",
  pinned: false,
  measure: "",
  sort: "pinned",
  sortBy: "",
  reverse: false,
} as const;

test("an address without a filter asks for every session", async () => {
  expect(filterOf(new URLSearchParams())).toEqual(EVERY);
  expect(filterOf(new URLSearchParams("state=nonsense&sort=evil&pinned=1"))).toEqual(EVERY);
  for (const typed of ["a,", "a|b", " ", "x".repeat(41)])
    expect(filterOf(new URLSearchParams({ tag: typed }))).toEqual(EVERY);
  expect(await asked(() => sessionsPage(EVERY, ""))).toEqual(["/v1/sessions?limit=50&sort=pinned"]);
});

test("a filter goes with every page that is asked for", async () => {
  const filter = filterOf(
    new URLSearchParams("state=ended&name=a%26b&tag=x%26y+&model=m%2F1&pinned=true&sort=name"),
  );
  const [url] = await asked(() => sessionsPage(filter, "ses_1"));
  expect(url).toBe(
    "/v1/sessions?limit=50&state=stopped&state=failed&state=cancelled&name=a%26b&tag=x%26y&base_model=m%2F1&pinned=true&sort=name&cursor=ses_1",
  );
});

test("an option is asked for once it has a value", async () => {
  const [url] = await asked(() =>
    sessionsPage(filterOf(new URLSearchParams({ option: " grpo_n=8 " })), ""),
  );
  expect(url).toContain("&config=grpo_n%3D8");
  for (const typed of ["grpo", "grpo_n=", "=8"])
    expect(filterOf(new URLSearchParams({ option: typed }))).toEqual(EVERY);
});

test("a list of some days is of the runs that were created in them", async () => {
  const filter = filterOf(new URLSearchParams("from=2026-11-02&to=2026-11-03"));
  const [url] = await asked(() => sessionsPage(filter, ""));
  const { searchParams } = new URL(url ?? "", "http://server");
  expect(
    Date.parse(searchParams.get("until") ?? "") - Date.parse(searchParams.get("since") ?? ""),
  ).toBe(48 * 3_600_000);
  expect([isNarrowed(filter), isNarrowed(EVERY)]).toEqual([true, false]);
});

test("a list may be of some kinds, and a queue begins with what starts next", async () => {
  const urls = await asked(() =>
    sessionsPage({ states: ["ready"], name: "", kinds: ["episodes", "tinker"] }, "", 5),
  );
  expect(urls).toEqual(["/v1/sessions?limit=5&state=ready&kind=episodes&kind=tinker"]);
  const queued = [7, null, 2, 1].map((position) => ({ queue_position: position }) as Session);
  expect(inTurn(queued).map((one) => one.queue_position)).toEqual([1, 2, 7, null]);
});

test("an order and its direction go with every page, and a click on a column turns it", async () => {
  const [url] = await asked(() =>
    sessionsPage(filterOf(new URLSearchParams("sort=reward&reverse=true")), "0.5~ses_1"),
  );
  expect(url).toBe("/v1/sessions?limit=50&sort=reward&reverse=true&cursor=0.5~ses_1");
  const columns = sortsOf(new URLSearchParams("sort=reward"));
  expect([columns.Reward?.direction, columns.Steps?.direction, columns.State]).toEqual([
    "descending",
    "none",
    undefined,
  ]);
  expect(String(columns.Reward?.turned("ascending"))).toBe("sort=reward&reverse=true");
  expect(String(columns.Session?.turned("ascending"))).toBe("sort=name");
  expect(String(columns.Created?.turned("descending"))).toBe("sort=newest");
  expect(String(columns.Reward?.turned("none"))).toBe("");
});

test("a list is in the order of a measure of its own, and within a bound on one", async () => {
  const address = new URLSearchParams({
    sort: "measure",
    by: "metrics/turns",
    measure: "metrics/reward/format<=0.5",
  });
  const [url] = await asked(() => sessionsPage(filterOf(address), ""));
  expect(url).toBe(
    "/v1/sessions?limit=50&measure=metrics%2Freward%2Fformat%3C%3D0.5&sort=measure&sort_by=metrics%2Fturns",
  );
  expect([
    isNarrowed(filterOf(address)),
    measureSort(address, "metrics/turns").direction,
    measureSort(address, "loss").direction,
  ]).toEqual([true, "descending", "none"]);
  expect(String(measureSort(new URLSearchParams("sort=reward"), "loss").turned("ascending"))).toBe(
    "sort=measure&by=loss&reverse=true",
  );
  expect(String(measureSort(address, "metrics/turns").turned("none"))).toBe(
    "measure=metrics%2Freward%2Fformat%3C%3D0.5",
  );
  expect(sortsOf(address).Reward?.turned("descending").get("by")).toBeNull();
  for (const typed of ["metrics/turns>", "turns", "turns>=x"])
    expect(filterOf(new URLSearchParams({ measure: typed }))).toEqual(EVERY);
  expect(filterOf(new URLSearchParams("sort=measure"))).toEqual(EVERY);
});

test("a long list costs no more requests than a short one", () => {
  const interval = (pages: number, isLive = false) => {
    const { refetchInterval } = sessionsQuery({ states: [], name: "" }, isLive);
    return (
      typeof refetchInterval === "function" &&
      refetchInterval({ state: { data: { pages: Array<unknown>(pages) } } } as never)
    );
  };
  expect([interval(0), interval(1), interval(7), interval(1, true)]).toEqual([
    5_000, 5_000, 35_000, 60_000,
  ]);
});

test("going and ended are all the states there are, each once", () => {
  const [, going, ended, ...single] = STATE_CHOICES;
  const both = [...(going?.states ?? []), ...(ended?.states ?? [])];
  expect(new Set(both).size).toBe(9);
  expect(single.map((choice) => choice.value)).toEqual(both);
});
